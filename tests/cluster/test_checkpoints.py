"""Runs that are stopped on some ranks and go on, on as many or others, as if they had not been."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from checkpoint_support import resign
from cluster_support import (
    RUNS,
    apart,
    assert_same,
    at_round,
    fine,
    interrupt,
    kill,
    launched,
    run_each,
    this_rank,
    variant,
)
from renewing import renew
from run_support import go, status, timeless

from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.run_store import checkpoint
from experiments.run_store.checkpoint import rounds

COMMON = ("rounds=9", "eval_every=5", "checkpoint_every=4", "lr=[0.003,0.01]", "cluster.workers=8", "threads=1")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of RUNS, simulated in one go."""
    place = tmp_path_factory.mktemp("uninterrupted")
    return {name: go(*COMMON, *overrides, f"results_dir={place}") for name, overrides in RUNS.items()}


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """The run `logreg`."""
    return variant(*COMMON, *RUNS["logreg"], results=tmp_path / "results")


def _ended(folder: Path, ranks: int, act: Callable) -> list:
    """How `ranks` ranks ended, or for None the process alone."""
    return launched(folder, ranks, act) if ranks else [apart(folder, act)]


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("logreg", (2, None)),
        pytest.param("digits", (2, None), marks=pytest.mark.slow),
        pytest.param("logreg", (None, 4, 2), marks=pytest.mark.slow),
        pytest.param("digits", (None, 4, 2), marks=pytest.mark.slow),
    ],
)
def test_a_run_goes_on_with_any_number_of_ranks(
    name: str, ranks: tuple, uninterrupted: dict[str, Path], tmp_path: Path
) -> None:
    run = variant(*COMMON, *RUNS[name], results=tmp_path / "results")
    path, go_on = folder(run), partial(run_each, [run])
    for part, (before, stop, size) in enumerate(zip((4, 5), (5, 7), ranks[:-1], strict=False)):
        last = (size or 1) - 1  # any rank will do
        asked = stop - (size is not None and stop == 7)  # heard of a round later, but where all wait, as in round 5
        first, *others = _ended(tmp_path / f"part-{part}", size, partial(at_round, asked, last, interrupt, go_on))
        assert [first.code, *(rank.code for rank in others)] == [130] * (size or 1), first.said
        assert f"stopped after round {stop}; the same command goes on: {path}" in first.said
        assert {rank.said for rank in others} <= {""}
        assert (status(path)["status"], status(path)["round"]) == ("interrupted", stop)
        assert {file.name for file in (path / "checkpoint").iterdir()} == {str(before), str(stop)}
    [said, *_] = fine(_ended(tmp_path / "last", ranks[-1], go_on))
    assert f"resumed at round {stop}: {path}" in said
    assert_same(path, uninterrupted[name])


def _killed_while_saving(file: str, rank: int, act: Callable) -> None:
    """A rank that dies when a file of the second checkpoint has been written, but not yet got its name."""
    atomic = checkpoint.atomic

    def dying(target: Path, durable: bool) -> object:
        second = target.parent.name == "8" or (target.parent / "8").exists()
        if second and target.name == file and this_rank() == rank:
            kill()
        return atomic(target, durable)

    checkpoint.atomic = dying
    act()


@pytest.mark.parametrize(
    ("file", "rank", "before", "after"),
    [
        pytest.param("worker-6.pt", 3, 4, 3, marks=pytest.mark.slow),
        pytest.param("worker-6.pt", 1, 2, 4, marks=pytest.mark.slow),
        pytest.param("shared.pt", 0, 2, 4, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_is_kept_until_the_next_is_complete(
    file: str, rank: int, before: int, after: int, uninterrupted: dict[str, Path], run: RunConfig, tmp_path: Path
) -> None:
    path, go_on = folder(run), partial(run_each, [run])
    ranks = launched(tmp_path / "first", before, partial(_killed_while_saving, file, rank, go_on))
    assert [ended.code for ended in ranks] == [-9 if number == rank else 1 for number in range(before)]
    assert "lost contact" in ranks[0 if rank else 1].said
    assert rounds(path / "checkpoint") == [4]
    assert (path / "checkpoint" / "8" / "worker-5.pt").exists()
    [said, *_] = fine(launched(tmp_path / "second", after, go_on))
    assert f"resumed at round 4: {path}" in said
    assert_same(path, uninterrupted["logreg"])
    assert {entry.name for entry in (path / "checkpoint").iterdir()} == {"9"}


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run `logreg`, stopped after round 5 on two ranks."""
    place = tmp_path_factory.mktemp("stopped")
    run = variant(*COMMON, *RUNS["logreg"], results=place / "results")
    act = partial(at_round, 5, 0, interrupt, partial(run_each, [run]))
    assert [rank.code for rank in launched(place, 2, act)] == [130, 130]
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
    file = stopped / "checkpoint" / "5" / "worker-6.pt"  # one that the second rank reads
    resign(file, lambda state: state.update(more=Intruder(tmp_path / "traces")))
    first, second = launched(tmp_path / "again", 2, partial(run_each, [run]))
    assert (first.code, second.code) == (1, 1)
    assert f"error: rank 1: {file.parents[1]}: cannot be resumed (" in second.said
    assert f"{file.parent}: UnpicklingError: Weights only load failed" in second.said
    assert f"{file.parents[1]}: cannot be resumed (what other ranks read is damaged, as they say)" in first.said
    for said in (first.said, second.said):
        assert f"delete {stopped} to begin anew" in said
    assert "Traceback" not in first.said + second.said
    assert not (tmp_path / "traces").exists()


def test_what_one_rank_finds_damaged_all_leave_out(
    stopped: Path, uninterrupted: dict[str, Path], run: RunConfig, tmp_path: Path
) -> None:
    file = stopped / "checkpoint" / "5" / "worker-6.pt"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    first, second = fine(launched(tmp_path / "again", 2, partial(run_each, [run])))
    reason = f"{file.parent}: worker-6.pt: damaged: the checksum does not match"
    assert second == f"rank 1: {reason}; the checkpoint of round 4 is taken instead\n"
    assert f"resumed at round 4: {stopped}" in first
    assert_same(stopped, uninterrupted["logreg"])


def test_a_checkpoint_of_another_configuration_is_refused(stopped: Path, run: RunConfig, tmp_path: Path) -> None:
    other = replace(run, seed=1)
    shutil.copytree(stopped, folder(other))
    renew(folder(other))
    before = (folder(other) / "metrics.jsonl").read_bytes()
    for rank in launched(tmp_path / "again", 2, partial(run_each, [other])):
        assert rank.code == 1
        assert "shared.pt: damaged: the checksum does not match" in rank.said or "what other ranks read" in rank.said
        assert str(folder(other)) in rank.said
    assert (folder(other) / "metrics.jsonl").read_bytes() == before


def _elsewhere(run: RunConfig) -> None:
    """A run whose second rank, as on a machine of its own, has other results."""
    run_each([replace(run, results_dir=run.results_dir + "-2" * this_rank())])


@pytest.mark.slow
@pytest.mark.parametrize("begun", [True, False])
def test_machines_that_do_not_share_the_results_are_refused(
    begun: bool, run: RunConfig, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if begun:
        request.getfixturevalue("stopped")
        folder(replace(run, results_dir=run.results_dir + "-2")).mkdir(parents=True)
    first, second = launched(tmp_path / "again", 2, partial(_elsewhere, run))
    assert (first.code, second.code) == (1, 1)
    assert "all machines must share results_dir" in second.said
    assert "Traceback" not in first.said + second.said


def test_a_run_alone_overwrites_a_checkpoint_left_incomplete(
    uninterrupted: dict, run: RunConfig, tmp_path: Path
) -> None:
    path = folder(run)
    (path / "checkpoint" / "4").mkdir(parents=True)
    (path / "checkpoint" / "4" / "worker-0.pt").write_bytes(b"half")
    fine([apart(tmp_path / "alone", partial(run_each, [run]))])
    assert timeless(path) == timeless(uninterrupted["logreg"])
