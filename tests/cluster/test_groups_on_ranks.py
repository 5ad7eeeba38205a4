"""Groups of workers on ranks: the numbers of the simulation, and the bytes that cross inside and between them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cluster_support import assert_same, fine, launched, run_each, this_rank, variant, watched
from run_support import go, rows, timeless, where

from algorithms.comm.gather_broadcast import GatherBroadcast
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


@pytest.mark.parametrize(
    ("workers", "ranks", "groups", "expected"),
    [
        (8, 2, 4, [4, 4]),
        (6, 2, 3, [4, 2]),  # whole groups
        (8, 4, 2, [2, 2, 2, 2]),
        (6, 4, 2, [2, 1, 2, 1]),  # two ranks a group
        (7, 3, None, [3, 2, 2]),
    ],
)
def test_a_rank_has_whole_groups_or_a_part_of_one(workers: int, ranks: int, groups: int, expected: list) -> None:
    assert shares(workers, ranks, groups) == expected
    assert sum(expected) == workers


def test_ranks_that_cannot_share_the_groups_are_refused() -> None:
    with pytest.raises(UsageError, match=r"cluster.groups=2: 3 ranks cannot share them; start at most 2 ranks, or a"):
        Launch(0, 3, 0, 3, "node0", 29500).check(8, 2)


@pytest.mark.parametrize("name", [*RUNS][:4])
def test_groups_of_one_worker_are_no_groups(name: str, tmp_path: Path) -> None:
    run = (*COMMON, *RUNS[name], f"results_dir={tmp_path}")
    assert timeless(go(*run)) == timeless(go(*run, f"cluster.groups={WORKERS}"))
    assert where(*run) != where(*run, f"cluster.groups={WORKERS}")


def test_step_sizes_of_theory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"task.step_unit: .* not for groups"):
        go(*COMMON, "algorithm=ef21", "task.step_unit=theory", "cluster.groups=2", f"results_dir={tmp_path}")


def observed(target: Path, runs: list[RunConfig]) -> None:
    """The runs, with every message of their rounds on this rank written to a file."""
    messages, now = [], {"run": -1, "where": ""}

    def mark(owner: type, name: str, where: str) -> None:
        method = getattr(owner, name)

        def marking(self: object, *arguments: object) -> object:
            before, now["where"] = now["where"], where
            try:
                return method(self, *arguments)
            finally:
                now["where"] = before

        setattr(owner, name, marking)

    def begin(self: Torchrun, *arguments: object, start: Callable = Torchrun.__init__) -> None:
        now["run"] += 1
        start(self, *arguments)

    mark(Torchrun, "group_mean", "inside")
    mark(Torchrun, "_exchange", "answer")
    mark(GatherBroadcast, "exchange", "between")
    Torchrun.__init__ = begin
    with watched(lambda by, size: messages.append((now["run"], now["where"], by, size))):
        run_each(runs)
    (target / f"messages-{this_rank()}.json").write_text(json.dumps(messages))


def test_ranks_of_groups_equal_the_simulation_and_send_what_is_counted(tmp_path: Path) -> None:
    """Two groups of two ranks."""
    grouped = (*COMMON, "cluster.groups=2")
    runs = [variant(*grouped, *more, results=tmp_path / "results") for more in RUNS.values()]
    fine(launched(tmp_path, RANKS, partial(observed, tmp_path, runs)))
    sent = [json.loads((tmp_path / f"messages-{rank}.json").read_text()) for rank in range(RANKS)]
    for number, (run, more) in enumerate(zip(runs, RUNS.values(), strict=True)):
        assert_same(folder(run), go(*grouped, *more, f"results_dir={tmp_path / 'alone'}"))
        if run.cluster.participation or run.cluster.late:
            continue  # test_absent_workers.py counts these
        task = build_task(run)
        algorithm, last = build_algorithm(run, layout_of(task)), rows(folder(run))[-1]
        gradient = task.d * task.dtype.itemsize
        up, down = (
            [
                channel.payload_bytes(task.d, t, task.dtype)
                for t in range(1, ROUNDS + 1)
                for channel in [getattr(stage, end) for stage in algorithm.stages(t)]
            ]
            for end in ("uplink", "downlink")
        )
        for rank, messages in enumerate(sent):
            mine = [(where, by, size // TRIALS) for which, where, by, size in messages if which == number]
            full = sum(algorithm.takes_full_gradient(t) for t in range(1, ROUNDS + 1))
            averagings = 2 * ROUNDS - full if algorithm.looks_back else ROUNDS
            gathered, mean = ("inside", "gather", WORKERS // RANKS * gradient), ("inside", "broadcast", gradient)
            assert [one for one in mine if one[0] == "inside"] == [gathered, mean] * averagings
            assert last["bits_inside"] == 32 / task.dtype.itemsize * averagings * 2 * gradient
            assert [size for where, _, size in mine if where == "answer"] == down
            between = [size for where, _, size in mine if where == "between"]
            leads = rank % 2 == 0
            assert between == [size for both in zip(up, down, strict=True) for size in both] * leads
        assert last["payload_bytes"] == sum(up) + sum(down)
