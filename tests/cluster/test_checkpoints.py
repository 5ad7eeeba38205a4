"""Runs that are stopped on some ranks and go on, on as many or others, as if they had not been."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from cluster_support import RUNS, assert_same, at_round, interrupt, my_rank, outputs, run_all, spawn, variant
from renewing import renew
from run_support import change_checkpoint, go, status

from common.errors import RunError
from experiments.config.identity import folder
from experiments.config.schema import RunConfig

COMMON = ("rounds=9", "eval_every=5", "checkpoint_every=4", "lr=[0.003,0.01]", "cluster.workers=8", "threads=1")
LOGREG = (*COMMON, *RUNS["logreg"])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of RUNS, simulated in one go."""
    place = tmp_path_factory.mktemp("uninterrupted")
    return {name: go(*COMMON, *overrides, f"results_dir={place}") for name, overrides in RUNS.items()}


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    return variant(*LOGREG, results=tmp_path / "results")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [(2, None), (None, 4, 2)])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_with_any_number_of_ranks(
    name: str, ranks: tuple, uninterrupted: dict[str, Path], tmp_path: Path
) -> None:
    run = variant(*COMMON, *RUNS[name], results=tmp_path / "results")
    path, again = folder(run), partial(run_all, [run])
    for part, (before, stop, size) in enumerate(zip((4, 5), (5, 7), ranks[:-1], strict=False)):
        last = (size or 1) - 1  # any rank will do
        asked = stop - (size is not None and stop == 7)  # heard of a round later, but where all wait, as in round 5
        first, *others = spawn(tmp_path / f"part-{part}", size, partial(at_round, asked, last, interrupt, again))
        assert [first.code, *(rank.code for rank in others)] == [130] * (size or 1), first.said
        assert f"stopped after round {stop}; the same command goes on: {path}" in first.said
        assert {rank.said for rank in others} <= {""}
        assert (status(path)["status"], status(path)["round"]) == ("interrupted", stop)
        assert {file.name for file in (path / "checkpoint").iterdir()} == {str(before), str(stop)}
    [said, *_] = outputs(spawn(tmp_path / "last", ranks[-1], again))
    assert f"resumed at round {stop}: {path}" in said
    assert_same(path, uninterrupted[name])


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run `logreg`, stopped after round 5."""
    place = tmp_path_factory.mktemp("stopped")
    run = variant(*LOGREG, results=place / "results")
    act = partial(at_round, 5, 0, interrupt, partial(run_all, [run]))
    assert spawn(place, None, act)[0].code == 130
    return folder(run)


@pytest.fixture
def stopped(stopped_once: Path, run: RunConfig) -> Path:
    """A copy of it, as the run's own."""
    return shutil.copytree(stopped_once, folder(run))


class Intruder:
    """What a pickle that runs code holds."""

    def __init__(self, traces: Path) -> None:
        self.traces = traces

    def __reduce__(self) -> tuple:
        return Path.touch, (self.traces,)


def test_what_a_file_holds_besides_tensors_is_not_run(stopped: Path, run: RunConfig, tmp_path: Path) -> None:
    shutil.rmtree(stopped / "checkpoint" / "4")
    file = stopped / "checkpoint" / "5" / "worker-6.pt"
    change_checkpoint(file, lambda state: state.update(more=Intruder(tmp_path / "traces")))
    with pytest.raises(RunError) as error:
        go(*LOGREG, f"results_dir={run.results_dir}")
    assert f"{file.parents[1]}: cannot be resumed (" in str(error.value)
    assert f"{file.parent}: UnpicklingError: Weights only load failed" in str(error.value)
    assert f"delete {stopped} to begin anew" in str(error.value)
    assert not (tmp_path / "traces").exists()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("more", lambda state: torch.zeros(3)),
        ("memory", lambda state: state["memory"][..., :1].expand(2, 10**13)),
        ("memory", lambda state: state["memory"].to_sparse()),
    ],
)
def test_a_checkpoint_with_odd_tensors_is_refused(name: str, change: Callable, stopped: Path, run: RunConfig) -> None:
    shutil.rmtree(stopped / "checkpoint" / "4")
    for worker in range(1, 8):
        file = stopped / "checkpoint" / "5" / f"worker-{worker}.pt"
        change_checkpoint(file, lambda state: state.update({name: change(state)}))
    with pytest.raises(RunError, match=f"worker-1.pt: {name}: other tensors than this run has"):
        go(*LOGREG, f"results_dir={run.results_dir}")


def test_a_checkpoint_of_another_configuration_is_refused(stopped: Path, run: RunConfig) -> None:
    other = replace(run, seed=1)
    shutil.copytree(stopped, folder(other))
    renew(folder(other))
    before = (folder(other) / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=f"{folder(other)}.*damaged: the checksum does not match"):
        go(*LOGREG, "seed=1", f"results_dir={run.results_dir}")
    assert (folder(other) / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [("5",), ("4", "5")])
def test_what_one_rank_finds_damaged_all_leave_out(
    damaged: tuple, stopped: Path, uninterrupted: dict[str, Path], run: RunConfig, tmp_path: Path
) -> None:
    for round in damaged:  # in a file that the second rank reads
        file = stopped / "checkpoint" / round / "worker-6.pt"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    reason = f"{file.parent}: worker-6.pt: damaged: the checksum does not match"
    first, second = spawn(tmp_path / "again", 2, partial(run_all, [run]))
    if len(damaged) == 1:
        assert second.said == f"rank 1: {reason}; the checkpoint of round 4 is taken instead\n"
        assert f"resumed at round 4: {stopped}" in first.said
        assert_same(stopped, uninterrupted["logreg"])
    else:
        assert (first.code, second.code) == (1, 1)
        assert f"error: rank 1: {file.parents[1]}: cannot be resumed (" in second.said
        assert f"{file.parents[1]}: cannot be resumed (other ranks read damaged files, and report them)" in first.said
        assert "Traceback" not in first.said + second.said


def _elsewhere(run: RunConfig) -> None:
    """A run whose second rank, as on a machine of its own, has other results."""
    run_all([replace(run, results_dir=run.results_dir + "-2" * my_rank())])


@pytest.mark.slow
def test_a_run_goes_on_though_its_machines_share_no_results(
    stopped: Path, uninterrupted: dict[str, Path], run: RunConfig, tmp_path: Path
) -> None:
    first, _ = outputs(spawn(tmp_path / "again", 2, partial(_elsewhere, run)))
    assert f"resumed at round 5: {stopped}" in first
    assert_same(stopped, uninterrupted["logreg"])
    assert not Path(f"{run.results_dir}-2").exists()
