"""What makes a run another run: its settings, its data and its code."""

import ast
import importlib
import math
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from run_support import SMALL, SVMLIGHT, small

from algorithms.compressors import Compressor
from common.errors import UsageError
from data.libsvm import load_file
from experiments.config.classes import PACKAGES, defaults, parameters
from experiments.config.compose import CONF
from experiments.config.identity import run_id as identity
from experiments.config.run import load_run
from experiments.config.values import validate
from experiments.run_store.code import digests, find_edits

LOOKS = "results_dir=elsewhere study=mine task.display.label=mine algorithm.display.color=red"
NOBODY_MISSING = "cluster.participation=1 cluster.absent=[] cluster.late=[]"


@pytest.mark.parametrize(
    "override",
    [*LOOKS.split(), *NOBODY_MISSING.split(), "deterministic=false", "lr=[0.001]", "update.beta1=0.90"],
)
def test_identity_does_not_depend_on(override: str) -> None:
    assert identity(small(override)) == identity(small())


RELEVANT = """
    lr=0.002 lr_schedule=step_decay deterministic=true eval_every=6 partition=layer seed=1 cluster.workers=19
    cluster.groups=4 algorithm=naive compressor=top_k update.beta1=0.8 task=logreg/digits task.batch_size=4
"""


def test_identity_depends_on_everything_that_matters() -> None:
    everything = {identity(small(override)) for override in RELEVANT.split()} | {identity(small())}
    assert len(everything) == len(RELEVANT.split()) + 1


def test_changed_content_of_a_file_is_another_run(file: Path) -> None:
    overrides = ["task=logreg/file", f"task.dataset.file={file}"]
    before = identity(load_run(overrides))
    assert identity(load_run(overrides)) == before
    file.write_text(SVMLIGHT.replace("0.5", "0.25", 1))
    assert identity(load_run(overrides)) != before


@pytest.mark.parametrize(("name", "task"), [("a9a.t", "logreg/a9a.t"), (".my (own) set", "logreg/my_own_set")])
def test_a_task_has_the_name_of_its_data_file(name: str, task: str, file: Path) -> None:
    found = load_run(["task=logreg/file", f"task.dataset.file='{file.rename(file.with_name(name))}'"]).task
    assert (found.name, found.display["label"]) == (task, name)
    assert load_file(file.with_name(name), file.parent).name == name


def test_where_a_class_of_this_project_is_defined_is_no_setting() -> None:
    run = small("compressor=top_k")
    elsewhere = replace(run, compressor=replace(run.compressor, target="algorithms.compressors.top_k.TopK"))
    assert identity(elsewhere) == identity(run)


def function(a, /, b: "int | None" = None, *rest, c: float = -1.5, f: tuple[float, ...] = (1, 2), e=Path(), **more):
    """Not all of its parameters can be written in a file."""


def test_the_options_of_a_function() -> None:
    types = {name: one.annotation for name, one in parameters(function).items()}
    assert types == {"b": int | None, "c": float, "f": tuple[float, ...], "e": Any}
    assert defaults(function) == {"b": None, "c": -1.5, "f": (1, 2)}


FITTING = [
    (float, [1.5, 1], [True, "1", None, math.nan, math.inf, [1.0]], "a valid number"),
    (int, [1, -3], [True, 1.0, "1", None], "a valid integer"),
    (bool, [True, False], [1, 0, "true", None], "a valid boolean"),
    (str, ["", "a"], [1, None, True], "a valid string"),
    (Optional[float], [1, None], ["x", True], "a valid number"),  # noqa: UP045
    (int | str, [1, "x"], [1.5, None, True], "a valid integer or a valid string"),
    (Literal["l1"] | float | None, ["l1", 2, None], ["l2", True], "'l1' or a valid number"),
    (list[float], [[], [1, 2.0]], [["x"], [True], [math.nan], 1, None], "a valid number"),
    (tuple[int, str], [[1, "x"]], [1, [1], [1, 2]], "a valid list"),
    (Annotated[str | None, "place"], ["x", None], [1, True], "a valid string"),
    (Compressor | None, [1, "x", None, True, []], [math.nan, math.inf], "a finite number"),
]


@pytest.mark.parametrize(("kind", "yes", "no", "words"), FITTING, ids=[str(row[0]) for row in FITTING])
def test_values_are_checked_against_types(kind: Any, yes: list, no: list, words: str) -> None:
    for value in yes:
        read = validate(value, kind, "key")
        assert (list(read) if isinstance(read, tuple) else read) == value
    said = []
    for value in no:
        with pytest.raises(UsageError, match=r"^key=") as refused:
            validate(value, kind, "key")
        said.append(str(refused.value))
    assert said[0] == f"key={no[0]}: must be {words}"


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
def mini(write_package: Callable) -> Path:
    """A package of a user's, loaded but for two of its modules."""
    folder = write_package("mini", {f"{name}.py": text for name, text in FILES.items()})
    importlib.import_module("mini.method")
    return folder


def recorded() -> dict[str, str]:
    return {name: digest for name, digest in digests(["mini"]).items() if name.startswith("mini")}


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_what_is_recorded_are_the_modules_that_were_loaded(mini: Path) -> None:
    names = ("mini", "mini.deep", "mini.deep.late", "mini.method", "mini.sums", "mini.typing_only")
    assert tuple(recorded()) == names
    ours = {name for name in digests() if name.startswith(("algorithms", "experiments", "common"))}
    assert "experiments.training.trainer" in ours
    assert not [name for name in ours if name in ("algorithms", "algorithms.compressors", "common.errors")]


def test_a_loaded_module_keeps_the_digest_of_what_it_runs(mini: Path) -> None:
    before = recorded()
    replaced(mini / "sums.py", "a + b", "a - b")
    assert recorded() == before
    assert find_edits(recorded()) == ["mini/sums.py changed"]


def test_names_that_configurations_use_are_unique() -> None:
    """An id has the names of classes and functions without their modules."""
    targets = [re.findall(r"/target@\S*: (\S+)", file.read_text()) for file in CONF.rglob("*.yaml")]
    names = {(target.partition(".")[0], target.rpartition(".")[2]) for target in chain(*targets)}
    places = defaultdict(list)
    for package, file in ((one, file) for one in PACKAGES for file in sorted((ROOT / one).rglob("*.py"))):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and (package, node.name) in names:
                places[package, node.name].append(file.stem)
    double = {name: files for name, files in places.items() if len(files) > 1}
    assert double == {("data", "load"): ["cifar10", "libsvm", "shakespeare"]}  # no task takes data of two of them


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
        ("unrelated", "1", "2", []),
    ],
)
def test_an_edit_shows_where_it_may_change_numbers(mini: Path, file: str, old: str, new: str, found: list) -> None:
    before = recorded()
    replaced(mini / f"{file}.py", old, new)
    assert find_edits(before) == found


def called(place: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", *words], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_an_edit_of_a_compressor_concerns_its_users_alone(tmp_path: Path) -> None:
    """On a copy of the project."""
    for folder in ("algorithms", "common", "conf", "data", "experiments", "hydra_plugins", "plots"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "downloads"))
    run = ("experiments.run", *SMALL)
    called(tmp_path, *run, "algorithm=ef21", "compressor=top_k")
    called(tmp_path, *run, "algorithm=ef21", "compressor=scaled_sign")
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
