"""A rank that dies, hangs or fails: the others end with a message, and the run goes on from its checkpoint."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cluster_support import assert_same, at_round, fine, kill, launched, run_each, this_rank, variant
from run_support import go, status
from torch import Tensor

from common.errors import DataError
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.training import build
from experiments.training.trainer import Trainer

COMMAND = (
    *("task=logreg/breast_cancer", "rounds=9", "eval_every=3", "checkpoint_every=4", "lr=[0.003,0.01]"),
    *("cluster.workers=4", "threads=1"),
)


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """That of COMMAND."""
    return variant(*COMMAND, results=tmp_path / "results")


def _goes_on(run: RunConfig, tmp_path: Path, round: int) -> None:
    """Whether the run comes to the same end as one that no rank was lost from."""
    [said, other] = fine(launched(tmp_path / "again", 2, partial(run_each, [run])))
    assert f"resumed at round {round}: {folder(run)}" in said
    assert other == ""
    expected = go(*COMMAND, f"results_dir={tmp_path / 'alone'}")
    assert_same(folder(run), expected)


def _one_message(said: str, path: Path) -> bool:
    """Whether there is one error, in one line, that names the run's folder and what to do."""
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    return (
        len(errors) == 1
        and "lost contact to the other ranks" in errors[0]
        and errors[0].endswith(f"the same command goes on from the last checkpoint: {path}")
        and "Traceback" not in said
        and "/gloo/" not in said
    )


def _fail() -> None:
    raise ZeroDivisionError("by what?")


@pytest.mark.parametrize(
    ("do", "rank", "size"),
    [
        (kill, 1, 2),
        *(pytest.param(*how, marks=pytest.mark.slow) for how in ((kill, 0, 2), (_fail, 1, 2))),
    ],
)
def test_a_rank_that_dies_or_crashes(do: Callable, rank: int, size: int, run: RunConfig, tmp_path: Path) -> None:
    ranks = launched(tmp_path / "first", size, partial(at_round, 7, rank, do, partial(run_each, [run])))
    lost = ranks.pop(rank)
    if do is kill:
        assert lost.code == -9
        assert "error" not in lost.said
    else:
        assert "ZeroDivisionError: by what?" in lost.said
    assert [left.code for left in ranks] == [1] * (size - 1)
    for number, left in zip([number for number in range(size) if number != rank], ranks, strict=True):
        assert left.said.startswith(f"error: rank {number}: ") or number == 0
        assert _one_message(left.said, folder(run)), left.said
    # Of the first rank that is killed nobody is there to say so.
    assert status(folder(run))["status"] == ("running" if (do, rank) == (kill, 0) else "failed")
    _goes_on(run, tmp_path, round=4)


def _without_data(rank: int, act: partial) -> None:
    """One rank finds no data."""
    build_task = build.build_task

    def failing(*arguments: object) -> object:
        if this_rank() == rank:
            raise DataError("breast_cancer: not on this machine")
        return build_task(*arguments)

    build.build_task = failing
    act()


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 0])
def test_a_rank_without_data(rank: int, run: RunConfig, tmp_path: Path) -> None:
    ranks = launched(tmp_path / "first", 2, partial(_without_data, rank, partial(run_each, [run])))
    assert [ended.code for ended in ranks] == [1, 1]
    assert ranks[rank].said.endswith(("error: ", "error: rank 1: ")[rank] + "breast_cancer: not on this machine\n")
    assert _one_message(ranks[1 - rank].said, folder(run)), ranks[1 - rank].said
    assert not (folder(run) / "status.json").exists()


def _spoiled(act: partial) -> None:
    """The gradients of the last rank are not finite in round 7."""
    clipped = Trainer._clipped

    def spoiled(self: Trainer, gradients: Tensor, t: int) -> Tensor:
        return clipped(self, gradients if t < 7 or this_rank() == 0 else gradients / 0, t)

    Trainer._clipped = spoiled
    act()


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_on_one_rank(run: RunConfig, tmp_path: Path) -> None:
    first, second = launched(tmp_path / "first", 2, partial(_spoiled, partial(run_each, [run])))
    assert (first.code, second.code) == (1, 1)
    assert "error: rank 1: round 7, worker 2, trial 0 (lr=0.003): local gradient is not finite" in second.said
    assert _one_message(first.said, folder(run)), first.said
    assert status(folder(run))["status"] == "failed"
