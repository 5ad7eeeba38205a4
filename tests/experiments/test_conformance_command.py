"""`python -m experiments.check`: what it takes, what it says and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from experiments.check import main
from experiments.config.compose import CONF
from experiments.conformance import algorithms, compressors, datasets, tasks

PACKAGE = '''
from dataclasses import dataclass
from functools import partial

from algorithms.channels import Direct
from algorithms.compressors import Compressor, Identity, TopK
from algorithms.protocol import Algorithm
from algorithms.updates import SGD
from data.dataset import Dataset
from data.embedded import breast_cancer
from common.errors import DataError
from experiments.tasks.logreg import LogisticRegression


@dataclass(frozen=True)
class Forgetful(TopK):
    """Does not count its indices where it forgets them."""

    forgets: bool = True

    def bits(self, d: int) -> int:
        return super().bits(d) // (2 if self.forgets else 1)


@dataclass(frozen=True)
class Sized(Identity):
    length: int

    def check(self, d: int) -> None:
        if d != self.length:
            raise ValueError(f"d={d}: takes {self.length}")


def own(compressor: Forgetful, update: SGD) -> Algorithm:
    return Algorithm.both_ways(Direct(compressor), update)


class Task(LogisticRegression):
    """The same."""


def few(rows: int = 20) -> Dataset:
    dataset = breast_cancer()
    return Dataset.from_dense("few", dataset.features.toarray()[:rows, :4], dataset.labels[:rows] > 0)


def missing() -> Dataset:
    raise DataError("few.svm is not there: fetch it")


def nothing() -> None:
    """Neither a compressor nor anything else."""


constant = 3
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a user's module, which can be imported."""
    (tmp_path / "their_module.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "their_module"
    sys.modules.pop("their_module", None)


@pytest.fixture
def check(package: str, capsys: pytest.CaptureFixture) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Runs the command: its exit status and what it wrote to both outputs."""
    threads = torch.get_num_threads()

    def run(name: str, *options: str) -> tuple[int, str, str]:
        status = 0
        try:
            main([f"{package}.{name}" if name[0] != "/" else name[1:], *options])
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    yield run
    torch.set_num_threads(threads)


def test_a_failure_is_said_in_its_place(check: Callable) -> None:
    status, out, err = check("Forgetful")
    lines = out.splitlines()
    assert status == 1
    assert lines[0] == "compressor their_module.Forgetful"
    starts = [line[:6] for line in lines[1:] if line[:6].strip()]
    assert starts.count("FAIL  ") == 1
    assert starts.count("--    ") == 2
    assert starts.count("ok    ") == len(compressors.CHECKS) - 3
    [place] = [number for number, line in enumerate(lines) if line.startswith("FAIL")]
    assert "expected 64 bits for a payload of float32 [1] and int32 [1], saw 32, for d = 1" in lines[place + 1]
    assert err == "error: 1 of 13 checks failed, see above\n"


def test_options_are_set_as_in_a_configuration(check: Callable) -> None:
    status, out, err = check("Forgetful", "forgets=false", "k=2")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "compressor their_module.Forgetful forgets=false k=2"
    assert out.splitlines()[-1] == "none of 13 checks failed"


@pytest.mark.parametrize(
    ("name", "options", "kind", "checks"),
    [
        ("own", ("compressor._target_=their_module.Forgetful", "compressor.forgets=false"), "algorithm", algorithms),
        ("Task", ("regularization=0.2", "partition=shuffled"), "task", tasks),
        ("Task", ("dataset._target_=their_module.few", "dataset.rows=30"), "task", tasks),
        ("few", (), "data set", datasets),
        ("Sized", ("length=5",), "compressor", compressors),
        ("/algorithms.compressors.TopK", ("k=2",), "compressor", compressors),
        ("/algorithms.methods.sgd.sgd", (), "algorithm", algorithms),
        ("/data.embedded.digit_images", (), "data set", datasets),
    ],
)
def test_every_kind_is_told_from_the_others(
    name: str, options: tuple, kind: str, checks: object, check: Callable
) -> None:
    status, out, err = check(name, *options)
    assert (status, err) == (0, "")
    assert out.startswith(f"{kind} ")
    assert out.splitlines()[-1] == f"none of {len(checks.CHECKS)} checks failed"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", (), "their_module.nothing: can be checked if it is a compressor, a subclass of"),
        ("constant", (), "their_module.constant: can be checked if it is a compressor"),
        ("partial", (), "can be checked if it is"),
        ("Forgetfull", (), "is no class or function; their_module has: Forgetful, Sized, own, Task, few, missing, "),
        ("/no_such_module.Thing", (), "No module named 'no_such_module'); the folder that no_such_module lies in"),
        ("/their_module", (), "their_module: is no class or function; name one with its module"),
        ("Forgetful", ("k=two",), "compressor.k=two: expected a whole number or null"),
        ("Forgetful", ("kk=1",), "compressor.kk: their_module.Forgetful has no such option"),
        ("Forgetful", ("k",), "k: not of the form key=value"),
        ("Forgetful", ("k=${nope}",), "Interpolation key 'nope' not found"),
        ("/algorithms.compressors.TopK", ("k=0",), "compressor: k=0: top_k sends between 1 and"),
        ("Sized", (), "their_module.Sized: set length=…, for which there is no default"),
        ("own", ("eta=1",), "algorithm.eta: their_module.own has no such option"),
        ("own", (), "algorithm: expected a method that takes one of Identity(), ScaledSign(norm='l1')"),
        ("Task", ("batch_size=0",), "task: batch_size=0: a worker draws at least one row"),
        ("/experiments.tasks.images.ImageClassification", (), "set rows=…, for which there is no default"),
    ],
)
def test_what_cannot_be_checked(name: str, options: tuple, message: str, check: Callable) -> None:
    status, out, err = check(name, *options)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/mine_.top", "mine_.top: is no class or function; mine_.top has: Top1, largest\n"),
        ("/mine_.top.Top2", "mine_.top.Top2: is no class or function; mine_.top has: Top1, largest\n"),
        ("/mine_/top.py", None),
        ("/mine_.broken.Top1", "mine_.broken cannot be imported (ModuleNotFoundError: No module named 'not_here')\n"),
        (
            "/mine_.other.Top1",
            "mine_.other cannot be imported (ModuleNotFoundError: No module named 'mine_.other')\n",
        ),
    ],
)
def test_what_there_is_instead(
    name: str, message: str | None, check: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_").mkdir()
    (tmp_path / "mine_" / "__init__.py").write_text("")
    (tmp_path / "mine_" / "top.py").write_text(
        "from algorithms.compressors import TopK\n\n\nclass Top1(TopK):\n    pass\n\n\ndef largest():\n    pass\n"
    )
    (tmp_path / "mine_" / "broken.py").write_text("import not_here\n")
    status, out, err = check(name)
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == "mine_"]:
        monkeypatch.delitem(sys.modules, loaded)
    assert (status, out) == (2, "")
    assert (message or "mine_/top.py: is a file; name a class or function in it, mine_.top.Top1 say\n") in err
    assert "PYTHONPATH" not in err


def test_data_that_are_not_there(check: Callable) -> None:
    status, out, err = check("missing")
    assert (status, out, err) == (1, "", "error: few.svm is not there: fetch it\n")


def test_from_a_shell_with_the_package_elsewhere(package: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "experiments.check", f"{package}.Forgetful"],
        cwd=CONF.parent,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert "FAIL  bits(d) is what the payload holds" in ended.stdout
    assert ended.stderr == "error: 1 of 13 checks failed, see above\n"
