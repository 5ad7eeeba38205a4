"""Where the tests of runs put them, and how they break in at a round."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from run_support import SMALL, SVMLIGHT, halted, where

from experiments.orchestration.processes import Job
from experiments.training.trainer import Trainer


@pytest.fixture
def results(tmp_path: Path) -> str:
    """The override that puts runs into the test's folder."""
    return f"results_dir={tmp_path / 'results'}"


@pytest.fixture
def at_round(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, Callable[[], None]], None]]:
    """Calls something once, when a run is about to begin a given round."""
    step = Trainer.step

    def arrange(round: int, act: Callable[[], None]) -> None:
        pending = [act]

        def acting(trainer: Trainer, diagnose: bool = False) -> None:
            if pending and trainer.t + 1 == round:
                pending.pop()()
            step(trainer, diagnose)

        monkeypatch.setattr(Trainer, "step", acting)

    yield arrange
    monkeypatch.undo()


@pytest.fixture
def interrupted(results: str, at_round: Callable) -> Path:
    """A run stopped after round 12."""
    at_round(12, lambda: signal.raise_signal(signal.SIGINT))
    assert halted([*SMALL, results]) == 130
    return where(*SMALL, results)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Forty rows of four features."""
    path = tmp_path / "mine.svm"
    path.write_text(SVMLIGHT)
    return path


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be started."""

    def start(job: Job, slot: int) -> None:
        raise AssertionError(f"started: {job.log}")

    monkeypatch.setattr(Job, "start", start)
