"""Which modules a run's numbers depend on, by their source alone: what an edit changes, and what it leaves."""

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from common.errors import UsageError
from experiments.config.sources import located, modules, path_of

ROOT = Path(__file__).resolve().parents[2]

FILES = {
    "__init__": "",
    "method": """
        from typing import TYPE_CHECKING
        from mini.hub import Small as Chosen
        from . import sums

        if TYPE_CHECKING:
            from mini.typing_only import T
        else:
            import mini.otherwise

        def method(x):
            from mini.deep.late import late
            return late(sums.add(x, Chosen))
    """,
    "hub/__init__": """
        \"\"\"Those that there are.\"\"\"
        from mini.hub.large import Large
        from .small import Small
        __all__ = ["Large", "Small"]
    """,
    "hub/large": "Large = 1",
    "hub/small": "Small = 2",
    "sums": """
        import os
        # a comment
        def add(a, b):
            \"\"\"A docstring.\"\"\"
            return a + 2 * b
    """,
    "deep/__init__": "SETTING = 1",
    "deep/late": "from ..deepest import WEIGHT\ndef late(x): return WEIGHT * x",
    "deepest": "WEIGHT = 0.5",
    "typing_only": "T = int",
    "otherwise": "",
    "unrelated": "A = 1",
    "whole": "import mini.hub",
    "stars": "from mini.hub import *",
}


@pytest.fixture
def mini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of a user's."""
    for name, text in FILES.items():
        file = tmp_path / "mini" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "mini"


def found(start: str = "mini.method.method", **options) -> dict[str, str]:
    return modules([start], ("mini",), **options)


def test_imports_are_followed_wherever_they_stand(mini):
    names = ("deep.__init__", "deep.late", "deepest", "hub.__init__", "hub.small", "method", "otherwise", "sums")
    assert list(found()) == [f"mini.{name}" for name in names]
    assert found("mini.method") == found()
    assert "mini" not in sys.modules


@pytest.mark.parametrize("start", ["mini.whole", "mini.stars"])
def test_a_package_taken_as_a_whole_leads_to_all_that_it_takes_in(mini, start):
    assert set(found(start)) >= {"mini.hub.__init__", "mini.hub.large", "mini.hub.small"}


def test_a_search_stops_where_it_is_told_and_within_its_packages(mini):
    assert set(found()) - set(found(without=("mini.deep",))) == {
        "mini.deep.__init__",
        "mini.deep.late",
        "mini.deepest",
    }
    assert set(found()) - set(found(without=("mini.deep.__init__",))) == {"mini.deep.__init__"}
    assert list(modules(["mini.method"], ("mini.deep", "mini.method"))) == [
        "mini.deep.__init__", "mini.deep.late", "mini.method",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("deepest", "0.5", "0.25", ["mini.deepest"]),
        ("deep/__init__", "1", "1.0", ["mini.deep.__init__"]),
        ("sums", "a + 2 * b", "(a + 2) * b", ["mini.sums"]),
        ("sums", "# a comment", "# another", []),
        ("sums", "A docstring.", "Other words.", []),
        ("sums", "a + 2 * b", "(\n        a\n        + 2 * b\n    )", []),
        ("hub/__init__", "from mini.hub.large import Large", "", []),
        ("hub/__init__", "from .small import Small", "from .small import Other as Small", ["mini.hub.__init__"]),
        ("unrelated", "1", "2", []),
        ("typing_only", "int", "float", []),
    ],
    ids=[
        "deeply-imported", "number-type", "operation", "comment", "docstring", "layout",
        "hub-other-name", "hub-this-name", "unrelated", "for-types",
    ],
)  # fmt: skip
def test_an_edit_shows_where_numbers_can_depend_on_it(mini, file, old, new, changes):
    before = found()
    path = mini / f"{file}.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    after = found()
    assert [name for name in after if after[name] != before[name]] == changes
    assert set(after) == set(before)


def test_another_import_shows(mini):
    (mini / "hub" / "__init__.py").write_text(
        "from mini.hub.large import Large\nfrom mini.hub.large import Large as Small\n"
    )
    assert "mini.hub.large" in found()
    assert "mini.hub.small" not in found()
    (mini / "new.py").write_text("B = 1")
    assert "mini.new" not in found()


def test_a_module_that_is_one_file_has_a_digest(tmp_path, monkeypatch):
    (tmp_path / "single.py").write_text("def f(): pass")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(modules(["single.f"], ("single",))) == ["single"]
    assert path_of("single") == tmp_path / "single.py"
    assert path_of("single.more") is None


def test_what_is_not_python_is_told_by_file_and_line(mini):
    (mini / "deepest.py").write_text("A = 1\nB = = 2\n")
    with pytest.raises(UsageError, match=r"deepest\.py, line 2: not Python"):
        found()


@pytest.mark.parametrize(
    ("target", "file", "line"),
    [
        ("algorithms.compressors.TopK", "algorithms/compressors/top_k.py", "class TopK(Sparsifier):"),
        ("algorithms.compressors.top_k.TopK", "algorithms/compressors/top_k.py", "class TopK(Sparsifier):"),
        ("data.libsvm.HOST", "data/libsvm.py", "HOST = "),
    ],
    ids=["re-exported", "direct", "constant"],
)
def test_a_name_is_found_where_it_is_defined(target, file, line):
    source, node = located(target)
    assert source.path == ROOT / file
    assert source.path.read_text().splitlines()[node.lineno - 1].startswith(line)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("algorithms.compressors.TopJ", "has no TopJ; did you mean TopK? Valid: BinMeans, "),
        ("algorithms.compresors.TopK", "algorithms has no module compresors; did you mean compressors?"),
        ("algorithms.methods.cd_adm.cd_adam", "algorithms.methods has no module cd_adm; did you mean cd_adam?"),
        ("algorithms.methods.cd_adam", "a module; name what is in it. Valid: cd_adam"),
        ("algorithms.updates.sgd.SGD", "algorithms.updates is no package"),
        ("nowhere.at.All", "no package nowhere can be imported"),
        ("", "no package"),
    ],
    ids=["name", "module", "deeper", "a-module", "no-package", "nowhere", "empty"],
)
def test_what_is_not_there_is_told_with_what_is(target, message):
    with pytest.raises(UsageError) as error:
        located(target)
    assert message in str(error.value)


REAL = """
import sys
from pathlib import Path
from experiments.config import identity
from experiments.config.run import load_run
from experiments.config.sources import path_of

DOUBLED = {
    "algorithms.frozen": ("(1 - self.beta1) * gradient", "2 * (1 - self.beta1) * gradient"),
    "algorithms.schedules": ("else 0.1 if", "else 0.2 if"),
    "algorithms.channels": ("compensated - self.decode", "compensated - 2 * self.decode"),
}

def read():
    identity._digests.cache_clear()
    return identity.of(run), identity.code(run)

run = load_run(sys.argv[1:])
id, before = read()
print(*before)
for module in before:
    path = path_of(module.removesuffix(".__init__"))
    assert Path.cwd() in path.parents
    text = path.read_text()
    old, new = DOUBLED.get(module, (text, text + "\\nDOUBLED = 2\\n"))
    assert old in text, module
    path.write_text(text.replace(old, new, 1))
    changed, after = read()
    assert changed != id, module
    edited = [name for name in after if after[name] != before.get(name)]
    assert edited == [module] or (module in edited and module.endswith(".__init__")), (module, edited)
    path.write_text(text)
assert read() == (id, before)
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize(
    ("overrides", "within", "outside"),
    [
        (
            ["algorithm=onebit_adam", "task=logreg/a9a"],
            {"algorithms.frozen", "algorithms.schedules", "algorithms.channels", "algorithms.protocol",
             "algorithms.wire", "algorithms.updates", "algorithms.randomness", "algorithms.compressors.scaled_sign",
             "data.partition", "data.svmlight", "experiments.training.trainer", "experiments.training.build",
             "experiments.cluster.torchrun", "experiments.cluster.simulated", "experiments.tasks.logreg"},
            ("experiments.models.", "experiments.run_store.", "experiments.loggers.", "common.", "plots.",
             "data.download", "algorithms.compressors.top_k", "algorithms.methods.cd_adam",
             "experiments.tasks.images", "data.images"),
        ),
        (
            ["algorithm=cd_adam", "compressor=top_k", "task=digits", "task.precision=float32"],
            {"algorithms.compressors.top_k", "experiments.tasks.augmentation", "experiments.models.flat",
             "experiments.models.initial", "experiments.models.small_cnn"},
            ("algorithms.frozen", "experiments.models.vgg", "experiments.tasks.logreg"),
        ),
    ],
    ids=["onebit_adam-logreg", "cd_adam-images"],
)  # fmt: skip
def test_all_that_a_run_computes_with_is_part_of_its_identity(overrides, within, outside, tmp_path):
    """On a copy of the project, in which every module is edited in turn, a constant doubled or added."""
    for folder in ("algorithms", "common", "conf", "data", "experiments", "hydra_plugins"):
        kept = shutil.ignore_patterns("__pycache__", "downloads")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=kept)
    command = [sys.executable, "-c", REAL, *overrides]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.split())
    assert within <= names
    assert not [name for name in names if name.startswith(outside)]
