"""Groups of workers on ranks: the numbers of the simulation, and the bytes that cross inside and between them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cluster_support import assert_same, my_rank, outputs, run_all, spawn, variant, watch
from run_support import go, rows, run_folder, timeless

from common.errors import UsageError
from experiments.cluster.launch import Launch
from experiments.cluster.ranks import shares
from experiments.cluster.torchrun import Torchrun
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.tasks.task import layout_of
from experiments.training.build import build_algorithm, build_task

TRIALS, ROUNDS, RANKS, WORKERS = 2, 5, 4, 8  # two workers a rank
COMMON = (
    *("task=logreg/breast_cancer", f"rounds={ROUNDS}", "eval_every=2", "lr=[0.003,0.01]", "threads=1"),
    *(f"cluster.workers={WORKERS}", "clip_worker=0.05"),
)
RUNS = {
    "cd_adam": ("algorithm=cd_adam",),
    "diloco": ("algorithm=diloco", "algorithm.period=2", "compressor=top_k", "compressor.ratio=0.1"),
    "dasha_mvr": ("algorithm=dasha_mvr", "task.batch_size=3"),
    "vr_marina": ("algorithm=vr_marina", "task.batch_size=3"),
    "late groups": ("algorithm=cd_adam", "cluster.late=[[1,2]]"),
    "absent groups": ("algorithm=ef21", "compressor.k=3", "cluster.participation=0.5"),
}


def test_a_rank_has_whole_groups_or_a_part_of_one() -> None:
    assert shares(6, 2, 3) == [4, 2]
    assert shares(6, 4, 2) == [2, 1, 2, 1]
    with pytest.raises(
        UsageError, match=r"cluster.groups=2: 3 ranks cannot share them; start at most 2 ranks, or a multiple of 2"
    ):
        Launch(0, 3, 0, 3, "node0", 29500).check(8, 2)


@pytest.mark.parametrize("name", [*RUNS][:4])
def test_groups_of_one_worker_are_no_groups(name: str, tmp_path: Path) -> None:
    run = (*COMMON, *RUNS[name], f"results_dir={tmp_path}")
    assert timeless(go(*run)) == timeless(go(*run, f"cluster.groups={WORKERS}"))
    assert run_folder(*run) != run_folder(*run, f"cluster.groups={WORKERS}")


def test_step_sizes_of_theory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"task.step_unit: .* not for groups"):
        go(*COMMON, "algorithm=ef21", "task.step_unit=theory", "cluster.groups=2", f"results_dir={tmp_path}")


def observed(target: Path, runs: list[RunConfig]) -> None:
    """The runs, with the gathered and broadcast tensors of this rank written to a file, run by run."""
    sent = []

    def begin(self: Torchrun, *arguments: object, start: Callable = Torchrun.__init__) -> None:
        sent.append([])
        start(self, *arguments)

    def note(by: str, size: int) -> None:
        if by in ("gather", "broadcast") and size > 8:  # a flag
            sent[-1].append((by, size))

    Torchrun.__init__ = begin
    with watch(note):
        run_all(runs)
    (target / f"sent-{my_rank()}.json").write_text(json.dumps(sent))


def test_ranks_of_groups_equal_the_simulation_and_send_what_is_counted(tmp_path: Path) -> None:
    """Two groups of two ranks."""
    grouped = (*COMMON, "cluster.groups=2")
    runs = [variant(*grouped, *more, results=tmp_path / "results") for more in RUNS.values()]
    outputs(spawn(tmp_path, RANKS, partial(observed, tmp_path, runs)))
    sent = [json.loads((tmp_path / f"sent-{rank}.json").read_text()) for rank in range(RANKS)]
    for run, more, *by_rank in zip(runs, RUNS.values(), *sent, strict=True):
        assert_same(folder(run), go(*grouped, *more, f"results_dir={tmp_path / 'alone'}"))
        if run.cluster.participation or run.cluster.late:
            continue  # test_absent_workers.py counts these
        task = build_task(run)
        algorithm, last = build_algorithm(run, layout_of(task)), rows(folder(run))[-1]
        gradient, averagings, payload_bytes = TRIALS * task.d * task.dtype.itemsize, 0, 0
        expected: list[list] = [[] for _ in range(RANKS)]
        for t in range(1, ROUNDS + 1):
            times = 1 + (algorithm.looks_back and not algorithm.takes_full_gradient(t))
            averagings += times
            ends = [(stage.uplink, stage.downlink) for stage in algorithm.stages(t)]
            sizes = [[channel.payload_bytes(task.d, t, task.dtype) for channel in both] for both in ends]
            payload_bytes += sum(map(sum, sizes))
            for rank, messages in enumerate(expected):
                messages += [["gather", WORKERS // RANKS * gradient], ["broadcast", gradient]] * times
                for up, down in sizes:
                    between = [["gather", TRIALS * up], ["broadcast", TRIALS * down]]
                    messages += between * (rank % 2 == 0) + [["broadcast", TRIALS * down]]
        assert by_rank == expected
        assert last["bits_inside"] == averagings * 2 * 32 * task.d
        assert last["payload_bytes"] == payload_bytes
