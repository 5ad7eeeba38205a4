"""A user's own package: let in by name, its choices found, its source part of what a run is."""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_support import SMALL, contents, go, rows, where

from common.errors import Interrupted, RunError, UsageError
from experiments import status as status_command
from experiments.config.run import load_run
from experiments.training.build import build_algorithm, check
from plots.runs.find import find
from plots.runs.read import open_run

COMPRESSOR = '''
from dataclasses import dataclass

from algorithms.compressors import Identity
from their_package.sizes import SIZE


@dataclass(frozen=True)
class Mine(Identity):
    """A docstring."""

    scale: float = 1.0

    def bits(self, d):
        return SIZE * d
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of a user's, with a compressor and its configuration, on the path for imports."""
    folder = tmp_path / "their_package"
    (folder / "conf" / "compressor").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "sizes.py").write_text("SIZE = 7\n")
    (folder / "compressor.py").write_text(COMPRESSOR)
    (folder / "conf" / "compressor" / "mine.yaml").write_text("_target_: their_package.compressor.Mine\nscale: 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be stale: same size, same second
    yield folder
    forget()


def forget() -> None:
    """Nothing of the package stays loaded."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "their_package"]:
        del sys.modules[name]


MINE = [*SMALL, "packages=[their_package]", "compressor=mine"]


def test_its_choices_and_classes_are_found(package):
    run = load_run([*MINE, "compressor.scale=3"])
    check(run)
    algorithm: Any = build_algorithm(run)
    compressor = algorithm.uplink.compressor
    assert (type(compressor).__module__, compressor.scale, compressor.bits(10)) == ("their_package.compressor", 3, 70)


def resized(package: Path, size: int, more: str = "") -> None:
    """Edit the package, as if the next command were given by a new process."""
    (package / "sizes.py").write_text(f"SIZE = {size}\n{more}")
    forget()


def test_a_run_of_other_code_is_put_aside_and_run_anew(package, results, capsys):
    path = go(*MINE, results)
    before, summary = contents(path), rows(path)[-1]["bits_up"]
    resized(package, 8)
    assert go(*MINE, results) == path
    aside = path.with_name(f"{path.name}.1")
    said = f"run anew, their_package/sizes.py changed; the older run is in {aside}"
    assert said in capsys.readouterr().err
    assert contents(aside) == before
    assert rows(path)[-1]["bits_up"] == 8 * summary / 7
    assert open_run(aside).is_finished
    assert [run.folder for run in find(path.parent)] == [path]
    now = contents(path)
    go(*MINE, results)
    assert contents(path) == now
    resized(package, 9)
    go(*MINE, results)
    assert path.with_name(f"{path.name}.2").is_dir()


@pytest.mark.parametrize("finished", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_run_of_other_code_is_kept_or_an_error_where_that_is_wanted(package, results, capsys, at_round, finished):
    if not finished:
        at_round(12, lambda: signal.raise_signal(signal.SIGINT))
    try:
        go(*MINE, results)
    except Interrupted:
        assert not finished
    path = where(*MINE, results)
    before = contents(path)
    resized(package, 7, "OTHER = 8")
    with pytest.raises(RunError, match=r"of other code, their_package/sizes\.py changed; stale=rerun runs it anew"):
        go(*MINE, results, "stale=error")
    assert contents(path) == before
    assert go(*MINE, results, "stale=keep") == path
    assert not path.with_name(f"{path.name}.1").exists()
    assert open_run(path).is_finished
    status_command.main([str(path)])
    assert "1 of 1 runs are of other code: their_package/sizes.py changed" in capsys.readouterr().out


def test_nothing_of_it_is_let_in_unasked(package):
    for wrong, message in (
        (["compressor._target_=their_package.compressor.Mine"], "let in by packages=[their_package]"),
        (["compressor=mine"], "compressor=mine: no such choice"),
        (["packages=[their_pakage]"], "packages=[their_pakage]: cannot be imported"),
        (["packages=their_package"], "packages=their_package: must be a list"),
        (["packages=[their_package.sizes]"], "cannot be imported"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            load_run([*SMALL, *wrong])


DISPLAY = "display: {label: Mine, color: red, marker: o}"


def refused(package: Path, text: str) -> str:
    """Why an algorithm of the package, of this configuration, is."""
    (package / "conf" / "algorithm").mkdir()
    (package / "conf" / "algorithm" / "mine.yaml").write_text(f"# @package _global_\n{text}\n")
    with pytest.raises(UsageError) as refusal:
        check(load_run([*SMALL, "packages=[their_package]", "algorithm=mine", "update=sgd"]))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults: [cd_adam, _self_]\nlrr: 3", "lrr: no such key; did you mean lr?"),
        ("algorithm: {name: a}", "algorithm={'name': 'a'}: a choice of conf/algorithm/"),
        ("algorithm: {_target_: f, name: a}", "algorithm.display=None: must have label, color, marker"),
        (f"algorithm: {{_target_: f, {DISPLAY}}}", "algorithm.name=None: may have letters"),
    ],
    ids=["key", "target", "display", "name"],
)
def test_a_file_of_its_with_a_wrong_key_or_without_one_is_refused(text, message, package):
    assert message in refused(package, text)


WRONG = {
    "def f(compressor: Compressor, update: SGD, n: int) -> Algorithm: ...": "code.f: missing a required",
    "def f(compressor: Compressor, n: 'Nothing'): ...": "an annotation is not a type: name 'Nothing' is not defined",
    "def f(compressor: Compressor, update: SGD, ks: list[int]): ...": "algorithm.ks=3: must be a valid list",
}


@pytest.mark.parametrize("code", WRONG)
def test_what_does_not_fit_is_said(code, package):
    (package / "code.py").write_text(
        f"from algorithms.compressors import Compressor\nfrom algorithms.core.algorithm import Algorithm\n"
        f"from algorithms.core.update_rules import SGD\n{code}\n"
    )
    option = ", ks: 3" if "ks" in code else ""
    text = f"algorithm: {{_target_: their_package.code.f, name: mine, {DISPLAY}{option}}}"
    assert WRONG[code] in refused(package, text)
