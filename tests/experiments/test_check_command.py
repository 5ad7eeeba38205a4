"""`python -m experiments.check`: what it takes, what it says and how it ends."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.check import main
from experiments.config.compose import CONF

PACKAGE = '''
import shutil
from dataclasses import dataclass
from functools import partial

from algorithms.compressors import Compressor, TopK
from algorithms.core.algorithm import Algorithm
from common.errors import DataError
from data.dataset import Dataset
from data.embedded import breast_cancer
from experiments.tasks.logreg import LogisticRegression


class Forgetful(TopK):
    """Does not count its indices."""

    def bits(self, d: int) -> int:
        return super().bits(d) // 2


@dataclass(frozen=True)
class Sized(TopK):
    length: int = 5

    def check(self, d: int) -> None:
        if d != self.length:
            raise ValueError(f"d={d}: takes {self.length}")


def untyped(compressor, update, eta=0.1):
    raise ValueError("never")


def own(compressor: Forgetful) -> Algorithm:
    raise ValueError("never")

def either(compressor: Forgetful | None) -> Algorithm:
    raise ValueError("never")


class Task(LogisticRegression):
    """The same."""


def few(rows: int = 20) -> Dataset:
    dataset = breast_cancer()
    return Dataset.from_dense("few", dataset.features.toarray()[:rows, :4], dataset.labels[:rows] > 0)


def missing() -> Dataset:
    raise DataError("few.svm is not there: fetch it")


def dangerous(path: str = "x") -> None:
    raise SystemExit("was called")
'''


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Runs the command for something in `theirs`: its exit status and what it wrote to both outputs."""
    (tmp_path / "theirs.py").write_text(PACKAGE)
    (tmp_path / "damaged.py").write_text("import not_here")
    monkeypatch.syspath_prepend(tmp_path)

    def run(line: str) -> tuple[int, str, str]:
        status: Any = 0
        try:
            main(line.split())
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, out, err

    yield run
    sys.modules.pop("theirs", None)


@pytest.mark.slow
def test_a_failure_is_said_in_its_place(tmp_path: Path, check: Callable) -> None:
    """In a process of its own, as from a shell in any folder."""
    command = [sys.executable, "-m", "experiments.check", "theirs.Forgetful", "k=2"]
    places = os.environ | {"PYTHONPATH": str(CONF.parent)}
    ended = subprocess.run(command, cwd=tmp_path, env=places, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "error: some checks failed, see above\n")
    assert "expected 128 to 128 bits for a payload of float32 [2] and int32 [2], saw 64" in ended.stdout
    assert "1 failed, 8 passed, 2 skipped" in ended.stdout


METHOD = "algorithms.methods.cd_adam.cd_adam compressor._target_=algorithms.compressors.ScaledSign"
TASK = "theirs.Task regularization=0.2 dataset._target_=theirs.few dataset.rows=30"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("theirs.few", "dataset"),
        pytest.param("theirs.Sized k=2", "compressor", marks=pytest.mark.slow),
        pytest.param(TASK, "task", marks=pytest.mark.slow),
        pytest.param(METHOD, "algorithm", marks=pytest.mark.slow),
    ],
)
def test_every_kind_is_told_from_the_others(line: str, kind: str, check: Callable) -> None:
    status, out, err = check(line)
    assert (status, err) == (0, ""), out
    assert out.splitlines()[0] == f"{kind} {line}"
    assert " passed" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("theirs.dangerous", "theirs.dangerous: can be checked if it is a compressor, a subclass of"),
        ("theirs.untyped", "theirs.untyped: can be checked if it is a compressor, a subclass of"),
        ("theirs.partial", "theirs.partial: must be a class or function of algorithms, data, experiments, theirs"),
        ("theirs.Forgetfull", "module 'theirs' has no attribute 'Forgetfull'"),
        ("nowhere.Thing", "ModuleNotFoundError: No module named 'nowhere'"),
        ("theirs.Forgetful k=two", "compressor.k=two: must be a valid integer"),
        ("theirs.Forgetful kk=1", "compressor.kk: theirs.Forgetful has no such option"),
        ("theirs.Forgetful k=0", "compressor: k=0: top_k sends between 1 and"),
        ("algorithms.compressors.Blocks", "missing a required argument: 'compressor'"),
        ("theirs.either", "algorithm: none of the compressors and updates here has the type of its parameter"),
    ],
)
def test_what_cannot_be_checked(line: str, message: str, check: Callable) -> None:
    status, out, err = check(line)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


def test_what_fails(check: Callable) -> None:
    assert check("theirs.missing") == (1, "", "error: few.svm is not there: fetch it\n")
