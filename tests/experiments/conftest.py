"""Where the tests of runs put them, and how they break in at a round."""

import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from run_support import SMALL, SVMLIGHT, before_round, forget, halted, where

from experiments.orchestration.processes import Job


@pytest.fixture
def at_round() -> Iterator[Callable[[int, Callable[[], object]], object]]:
    """Calls something once, when a run is about to begin a given round."""
    with ExitStack() as until_the_end:
        yield lambda round, act: until_the_end.enter_context(before_round(round, act))


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
def write_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, dict[str, str]], Path]]:
    """Writes a package of a user's, by its name and files, on the path for imports; nothing of it stays loaded."""
    names = []

    def write(name: str, files: dict[str, str]) -> Path:
        for file, text in files.items():
            target = tmp_path / name / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be stale: same size, same second
        names.append(name)
        return tmp_path / name

    yield write
    for name in names:
        forget(name)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be started."""

    def start(job: Job, slot: int) -> None:
        raise AssertionError(f"started: {job.log}")

    monkeypatch.setattr(Job, "start", start)
