"""Fixtures of the tests of runs: actions at a round, stopped runs, small files and packages."""

import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from run_support import SMALL, SVMLIGHT, before_round, forget, run_exit_code, run_folder

from experiments.orchestration.processes import Job


@pytest.fixture
def at_round() -> Iterator[Callable[[int, Callable[[], object]], object]]:
    """Call `act` once, before a run begins a given round."""
    with ExitStack() as until_the_end:
        yield lambda round, act: until_the_end.enter_context(before_round(round, act))


@pytest.fixture
def interrupted(results: str, at_round: Callable) -> Path:
    """A run stopped after round 12."""
    at_round(12, lambda: signal.raise_signal(signal.SIGINT))
    assert run_exit_code([*SMALL, results]) == 130
    return run_folder(*SMALL, results)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Forty rows of four features."""
    path = tmp_path / "mine.svm"
    path.write_text(SVMLIGHT)
    return path


@pytest.fixture
def write_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, dict[str, str]], Path]]:
    """Write a user's package, by name and files, onto the import path. It is unloaded after the test."""
    names = []

    def write(name: str, files: dict[str, str]) -> Path:
        for file, text in files.items():
            target = tmp_path / name / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)  # bytecode would be stale: same size, same second
        names.append(name)
        return tmp_path / name

    yield write
    for name in names:
        forget(name)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every start of a process fail."""

    def start(job: Job, slot: int) -> None:
        raise AssertionError(f"started: {job.log}")

    monkeypatch.setattr(Job, "start", start)
