"""Launches that cannot be: refused before anything is done, in one message."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from cluster_support import as_torchrun, command, free_port, launched, run_each
from run_support import SMALL, small, stopped, where


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Makes this process one of several, of which no other is there."""

    def become(rank: int, size: int) -> None:
        for name, value in as_torchrun(rank, size, 1).items():
            monkeypatch.setenv(name, value)

    return become


@pytest.mark.slow
@pytest.mark.parametrize(("local", "spoken"), [(0, True), (1, False)])
def test_the_first_rank_of_another_machine_speaks_for_it(
    local: int, spoken: bool, results: str, as_rank: Callable, waits: list[float], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    as_rank(2 + local, 4)
    monkeypatch.setenv("LOCAL_RANK", str(local))
    assert stopped([*SMALL, results, "sede=3"]) == 2
    said = capsys.readouterr().err
    assert ("rank 2: sede: no such key" in said) == spoken
    assert bool(said) == spoken


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how many seconds something has slept, instead of doing so."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


@pytest.mark.parametrize(
    ("ranks", "overrides", "parts"),
    [
        (4, ["cluster.workers=2"], ["cluster.workers=2", "too few for 4 ranks", "start 2 ranks or fewer"]),
        (2, ["ranks=2", "cluster.workers=4"], ["leave out torchrun or srun"]),
        *(
            pytest.param(2, *case, marks=pytest.mark.slow)
            for case in [
                (["cluster.server=rank1"], ["cluster.server=rank1", "rank0"]),
                (["cluster.workers=4", "device=cuda"], ["device=cuda", "runs on cpu only"]),
                (["cluster.workers=4", "task=digits", "device=cuda"], ["device=cuda", "torch sees no CUDA GPU here"]),
                (["cluster.workers=4", "task=digits", "task.batch_size=400"], ["task.batch_size=400", "384 images"]),
                (["cluster.workers=4", "sede=3"], ["did you mean seed?"]),
                (["-m", "cluster.workers=4", "seed=0,1"], ["leave out torchrun or srun, and set ranks=2"]),
            ]
        ),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_wrong_launch(
    ranks: int, overrides: list[str], parts: list[str], results: str, tmp_path: Path, as_rank: Callable,
    waits: list[float], capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    for rank in range(ranks):
        as_rank(rank, ranks)
        assert stopped([*SMALL, results, *overrides]) == 2
        said = capsys.readouterr().err
        if rank:  # it lets the first one speak, since torchrun ends all as soon as one has failed
            assert said == ""
            assert sum(waits) > 1
        else:
            assert said.startswith("error: ")
            assert said.count("\n") == 1
            assert all(part in said for part in parts), said
            assert not waits
    assert not (tmp_path / "results").exists()


def test_runs_of_one_launch_are_connected_once(as_rank: Callable, capsys: pytest.CaptureFixture) -> None:
    as_rank(0, 2)
    with pytest.raises(SystemExit) as stop:
        run_each([small("cluster.workers=4", f"cluster.timeout={seconds}") for seconds in (3, 4)])
    assert stop.value.code == 2
    assert "cluster.timeout: must be the same for all runs of one launch" in capsys.readouterr().err


def _hasty(act: partial) -> None:
    """Without waiting for what is waited for."""
    time.sleep = lambda seconds: None
    act()


@pytest.mark.slow
def test_a_batch_larger_than_a_workers_rows(results: str, tmp_path: Path) -> None:
    """Which is known once the data are loaded, when ranks are connected."""
    run = (*SMALL, results, "cluster.workers=4", "task.batch_size=143")
    first, second = launched(tmp_path / "ranks", 2, partial(_hasty, partial(command, *run)))
    assert (first.code, second.code) == (2, 2)
    assert first.said.endswith("error: task: batch_size=143: a worker has 142 rows; choose at most that, or null\n")
    assert second.said == ""
    assert not where(*run).exists()


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_that_never_come(rank: int, results: str, tmp_path: Path) -> None:
    port = free_port()
    [ended] = launched(
        tmp_path / "ranks",
        1,
        partial(command, *SMALL, results, "cluster.workers=4", "cluster.timeout=1"),
        environment=lambda _: as_torchrun(rank, 2, port),
    )
    assert ended.code == 1
    assert f"the other ranks could not be reached at 127.0.0.1:{port}" in ended.said
    assert "Traceback" not in ended.said
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_more_ranks_than_gpus(
    as_rank: Callable,
    waits: list[float],
    results: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    """Said by the first rank, which has one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for rank in range(2):
        as_rank(rank, 2)
        assert stopped(["task=digits", "device=cuda", results]) == 2
        assert ("start one rank a GPU" in capsys.readouterr().err) == (rank == 0)
