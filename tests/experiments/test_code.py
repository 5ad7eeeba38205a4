"""The code of a run: which edits show, which runs they concern, and what becomes of the older result."""

import importlib
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_support import SMALL

from experiments.run_store.code import changes, loaded

ROOT = Path(__file__).resolve().parents[2]

FILES = {
    "__init__": "",
    "method": """
        import mini.sums as sums
        from mini.deep.late import WEIGHT
        from .typing_only import T

        def method(x):
            \"\"\"A docstring.\"\"\"
            return sums.add(x, 2 * WEIGHT)  # a comment
    """,
    "sums": "def add(a, b): return a + b",
    "deep/__init__": "SETTING = 1",
    "deep/late": "WEIGHT = 0.5",
    "deep/other": "WEIGHT = 0.25",
    "typing_only": "class T: ...",
    "unrelated": "A = 1",
}


@pytest.fixture
def mini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of a user's, loaded but for two of its modules."""
    for name, text in FILES.items():
        file = tmp_path / "mini" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.import_module("mini.method")
    yield tmp_path / "mini"
    for name in [name for name in sys.modules if name.partition(".")[0] == "mini"]:
        del sys.modules[name]


def recorded() -> dict[str, str]:
    return {name: digest for name, digest in loaded(["mini"]).items() if name.startswith("mini")}


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_what_is_recorded_are_the_modules_that_were_loaded(mini: Path) -> None:
    names = ("mini", "mini.deep", "mini.deep.late", "mini.method", "mini.sums", "mini.typing_only")
    assert tuple(recorded()) == names
    ours = {name for name in loaded() if name.startswith(("algorithms", "experiments", "common"))}
    assert "experiments.training.trainer" in ours
    assert not [name for name in ours if name in ("algorithms", "algorithms.compressors", "common.errors")]


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        ("sums", "a + b", "a - b", ["mini/sums.py changed"]),
        ("deep/late", "0.5", "5e-1", []),
        ("deep/late", "0.5", "1", ["mini/deep/late.py changed"]),
        ("deep/__init__", "1", "1.0", ["mini/deep/__init__.py changed"]),
        ("method", "deep.late", "deep.other", ["mini/method.py changed"]),
        ("method", "2 * WEIGHT", "(\n        2\n        * WEIGHT\n    )", []),
        ("method", "a comment", "another", []),
        ("method", "A docstring", "Other words", []),
        ("method", "from .typing_only", "from mini.typing_only", []),
        ("unrelated", "1", "2", []),
    ],
)
def test_an_edit_shows_where_it_may_change_numbers(mini: Path, file: str, old: str, new: str, found: list) -> None:
    before = recorded()
    replaced(mini / f"{file}.py", old, new)
    assert changes(before) == found


def test_a_renamed_module_has_not_changed(mini: Path) -> None:
    before = recorded()
    (mini / "sums.py").rename(mini / "deep" / "addition.py")
    replaced(mini / "method.py", "mini.sums", "mini.deep.addition")
    (mini / "deep").rename(mini / "deeper")
    replaced(mini / "method.py", "mini.deep.", "mini.deeper.")
    assert changes(before) == []
    replaced(mini / "deeper" / "addition.py", "a + b", "a - b")
    assert changes(before) == ["mini/method.py changed", "mini/sums.py is gone"]


def test_a_renamed_module_is_not_taken_for_another(mini: Path) -> None:
    """Imports that move between two modules that stay are an edit, with another one renamed or not."""
    before = recorded()
    (mini / "sums.py").rename(mini / "addition.py")
    replaced(mini / "method.py", "mini.sums", "mini.addition")
    replaced(mini / "method.py", "deep.late", "deep.other")
    assert changes(before) == ["mini/method.py changed"]


def project(place: Path) -> None:
    """A copy of the project's code."""
    for folder in ("algorithms", "common", "conf", "data", "experiments", "hydra_plugins", "plots"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__", "downloads"))


def called(place: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", *words], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_an_edit_of_a_compressor_concerns_its_users_alone(tmp_path: Path) -> None:
    """On a copy of the project; so does a module that is renamed there concern nobody."""
    project(tmp_path)
    run = ("experiments.run", *SMALL)
    called(tmp_path, *run, "algorithm=ef21", "compressor=top_k")
    called(tmp_path, *run, "algorithm=ef21", "compressor=scaled_sign")
    assert "other code" not in called(tmp_path, "experiments.status")

    core = tmp_path / "algorithms" / "core"
    (core / "aggregation.py").rename(core / "combining.py")
    for file in [*tmp_path.glob("algorithms/**/*.py"), *tmp_path.glob("experiments/**/*.py")]:
        file.write_text(file.read_text().replace(".aggregation import", ".combining import"))
    assert "other code" not in called(tmp_path, "experiments.status")

    with (tmp_path / "algorithms/compressors/top_k.py").open("a") as file:
        file.write("\nEDITED = True\n")
    said = called(tmp_path, "experiments.status")
    assert "1 of 2 runs are of other code: algorithms/compressors/top_k.py changed" in said
    said = called(tmp_path, *run, "-m", "algorithm=ef21", "compressor=top_k,scaled_sign", "jobs=1")
    assert "1 of 2 runs is of other code: algorithms/compressors/top_k.py changed; run anew" in said
    assert "1 of 2 runs to do" in said
    assert "other code" not in called(tmp_path, "experiments.status")
    names = sorted(path.name for path in (tmp_path / "results/logreg/breast_cancer/ef21").iterdir())
    assert [name.partition(".")[2] for name in names].count("1") == 1
