"""What is said where memory did not suffice."""

import pytest
import torch
from run_support import SMALL, go, status, stopped, timeless, where

from experiments.training.trainer import Trainer

DIGITS = ("task=digits", "task.model.width=2", "task.rows=160", "task.batch_size=10", "rounds=4", "eval_every=2")


def failing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run fail with this error in its third round."""
    step = Trainer.step

    def fail(trainer: Trainer, diagnose: bool = False) -> None:
        if trainer.t == 2:
            raise error
        step(trainer, diagnose)

    monkeypatch.setattr(Trainer, "step", fail)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("full"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_it_says_what_would_fit_and_loses_nothing(
    error: Exception, results: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    command = (*DIGITS, results, "lr=[0.01,0.03]")
    failing(error, monkeypatch)
    assert stopped(list(command)) == 1
    said = capsys.readouterr().err
    assert "round 3: out of memory on cpu: the vectors of 8 workers and 2 step sizes take about " in said
    assert "fewer workers a rank" in said
    assert "Traceback" not in said
    assert status(where(*command))["round"] == 2
    monkeypatch.undo()
    assert len(timeless(go(*command))) == 2 * 3


def test_other_errors_stay_what_they_are(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(RuntimeError("shapes do not match"), monkeypatch)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        go(*SMALL, results)
