"""Users' packages, and files that would run code: nothing is called but what is let in and of its place's kind."""

import math
import pickle
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from run_support import SMALL, configuration, contents, exit_code, forget, go, rows, run_exit_code, run_folder

from common.errors import Interrupted, RunError, UsageError
from experiments import check as check_command
from experiments import reproduce
from experiments import status as status_command
from experiments.config.compose import CONF, compose, resolve
from experiments.config.run import config_of, load_run, read_run
from experiments.config.schema import Reproduction
from experiments.figures import configuration as of_figure
from experiments.figures.runs import runs_of
from experiments.run_store.folder import RunFolder
from experiments.tasks.logreg import LogisticRegression
from experiments.training.build import build_algorithm, build_task, check
from plots.runs.columns import Column
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
    levels: tuple[float, ...] = ()

    def bits(self, d):
        return SIZE * d
'''


CHOICE = "_target_: their_package.compressor.Mine\nscale: 2.0\n"
FILES = {
    "__init__.py": "",
    "sizes.py": "SIZE = 7\n",
    "compressor.py": COMPRESSOR,
    "bare.py": "from algorithms.core.algorithm import Algorithm\ndef bare(compressor, update) -> Algorithm: ...\n",
    "conf/compressor/mine.yaml": CHOICE,
}


@pytest.fixture
def package(write_package: Callable) -> Path:
    """A package of a user's, with a compressor and its configuration."""
    return write_package("their_package", FILES)


MINE = [*SMALL, "packages=[their_package]", "compressor=mine"]


def test_its_choices_and_classes_are_found(package):
    run = load_run([*MINE, "compressor.scale=3", "+compressor.levels=[1, 0.5]"])
    check(run)
    algorithm: Any = build_algorithm(run)
    compressor = algorithm.uplink.compressor
    assert (type(compressor).__module__, compressor.scale, compressor.bits(10)) == ("their_package.compressor", 3, 70)
    assert compressor.levels == (1, 0.5)


@pytest.mark.parametrize("step", ["encode", "decode"])
def test_an_option_that_the_tasks_vectors_are_too_short_for(package, results, capsys, step):
    method = {
        "encode": "def encode(self, x, key=None):\n        return super().encode(x.topk(int(self.scale)).values)",
        "decode": "def decode(self, payload, d):\n        return payload.values.topk(int(self.scale)).values",
    }[step]
    with (package / "compressor.py").open("a") as file:
        file.write(f"\n    {method}\n")
    assert run_exit_code([*MINE, "compressor.scale=31", results]) == 2
    assert (
        "error: compressor=their_package.compressor.Mine(scale=31): cannot compress the 30 coordinates of "
        "task=logreg/breast_cancer: RuntimeError: selected index k out of range"
    ) in capsys.readouterr().err
    assert not run_folder(*MINE, "compressor.scale=31", results).exists()


def resized(package: Path, size: int, more: str = "") -> None:
    """Edit the package, as if the next command were given by a new process."""
    (package / "sizes.py").write_text(f"SIZE = {size}\n{more}")
    forget("their_package")


def test_a_run_of_other_code_is_put_aside_and_run_anew(package, results, capsys):
    path = go(*MINE, results)
    before, summary = contents(path), rows(path)[-1]["bits_up"]
    assert RunFolder(path).resume_round() == 20
    resized(package, 8)
    assert RunFolder(path).resume_round() == 0
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


def test_a_run_of_other_code_is_kept_where_that_is_wanted(package, results, capsys, at_round):
    at_round(12, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted):
        go(*MINE, results)
    path = run_folder(*MINE, results)
    resized(package, 7, "OTHER = 8")
    assert go(*MINE, results, "stale=keep") == path
    assert not path.with_name(f"{path.name}.1").exists()
    assert open_run(path).is_finished
    status_command.main([str(path)])
    assert "1 of 1 runs are of other code: their_package/sizes.py changed" in capsys.readouterr().out


def test_nothing_of_it_is_let_in_unasked(package):
    for wrong, message in (
        (["compressor._target_=their_package.compressor.Mine"], "own by packages=[their_package]"),
        (["compressor=mine"], "compressor=mine: no such choice"),
        (["packages=[their_pakage]"], "packages=[their_pakage]: cannot be imported"),
        (["packages=their_package"], "packages=their_package: must be a list"),
        (["packages=[their_package.sizes]"], "cannot be imported"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            load_run([*SMALL, *wrong])


@pytest.mark.parametrize("name", ["compressor/top_k", "update/sgd"])
def test_a_file_of_its_with_a_name_of_ours_is_refused(name, package, capsys):
    """Named on the command line or by another file."""
    own, used = package / "conf" / f"{name}.yaml", ["compressor=top_k", "algorithm=ef21", *SMALL]
    own.parent.mkdir(exist_ok=True)
    own.write_text(CHOICE)
    said = f"{own}: has the name of {CONF / name}.yaml; rename yours"
    with pytest.raises(UsageError, match=re.escape(said)):
        load_run(["packages=[their_package]", *used])
    assert exit_code(["-cd", str(package / "conf"), *used]) == 2
    assert said in capsys.readouterr().err
    own.rename(own.with_name("mine.yaml"))
    load_run(["packages=[their_package]", *used])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults: [cd_adam, _self_]\nlrr: 3", "lrr: no such key; did you mean lr?"),
        (
            "algorithm: {_target_: their_package.bare.bare, name: a, display: {label: a, color: k, marker: o}}",
            "bare: takes no compressor; annotate its parameter: compressor: Compressor",
        ),
        ("algorithm: {name: a}", "algorithm: its YAML file sets no _target_; it needs `- /target@algorithm: my_pa"),
        ("algorithm: {_target_: f, name: a}", "algorithm.display=None: must have label, color, marker"),
    ],
)
def test_a_file_of_its_with_a_wrong_key_or_without_one_is_refused(text, message, package):
    (package / "conf" / "algorithm").mkdir()
    (package / "conf" / "algorithm" / "mine.yaml").write_text(f"# @package _global_\n{text}\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        check(load_run([*SMALL, "packages=[their_package]", "algorithm=mine", "update=sgd"]))


def test_a_weight_decay_that_nothing_takes_is_refused(package):
    """An update whose file does not pass it on would train without it, and results would say that it was set."""
    (package / "conf" / "update").mkdir()
    text = "_target_: algorithms.core.update_rules.SGD\nweight_decay: "
    for name, value in (("deaf", "0.0"), ("mine", "${weight_decay}")):
        (package / "conf" / "update" / f"{name}.yaml").write_text(f"{text}{value}\n")
    mine = [*SMALL, "packages=[their_package]"]
    with pytest.raises(UsageError, match=r"weight_decay=0.1: no option of .* algorithm=cd_adam has this value; set"):
        load_run([*mine, "update=deaf", "weight_decay=0.1", "+algorithm.entry.weight_decay=[0, 0.1]"])
    for words in (["update=mine", "weight_decay=0.1"], ["update=deaf", "update.weight_decay=0.1"]):
        assert load_run([*mine, *words]).update.options["weight_decay"] == 0.1


def test_a_task_selected_by_a_metric_without_a_direction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.tasks.logreg.LogisticRegression.metric", "r2")
    with pytest.raises(UsageError, match=r"r2: nothing says .* add Column"):
        check(load_run(SMALL))


MEASURED = [
    ({}, UsageError, "metric=fit: `evaluate` does not return it; Valid: train_loss, "),
    ({"fit": 0.5}, UsageError, "LogisticRegression: fit: `evaluate` must return a tensor [T]"),
    ({"fit": torch.tensor([math.nan])}, RunError, "round 0, trial 0 (lr=0.001): fit is nan. `evaluate` of Logistic"),
]


@pytest.mark.parametrize(("more", "error", "said"), MEASURED)
def test_a_task_that_does_not_measure_what_it_should_ends_the_run(more, error, said, results, monkeypatch):
    parts = {"metric": "fit", "columns": (Column("fit", better="higher"),)}
    parts["evaluate"] = lambda *given, right=LogisticRegression.evaluate: right(*given) | more
    for name, part in parts.items():
        monkeypatch.setattr(LogisticRegression, name, part, raising=False)
    with pytest.raises(error, match=re.escape(said)):
        go(*SMALL, results)


SPY = """
from functools import partial
from algorithms.compressors import Compressor, ScaledSign
from algorithms.core.algorithm import Algorithm

def unsaid(*args, **options): raise SystemExit(0)
def nothing() -> None: raise SystemExit(0)
def number() -> int: raise SystemExit(0)
class Other:
    def __init__(self) -> None: raise SystemExit(0)
class Half:
    devices = ("cpu",)
    metric = "train_loss"
    def __init__(self) -> None: raise SystemExit(0)
    def gradients(self) -> None: ...
    def evaluate(self) -> None: ...
made = partial(nothing)
def method(compressor: Compressor, extra=None, count: int = 3) -> Algorithm: raise SystemExit(0)
"""

TARGETS = ["venv.create", "spy.unsaid", "spy.nothing", "spy.number", "spy.Other", "spy.Half", "spy.made"]

PLACES = ("compressor", "update", "algorithm", "task", "logger")
WITHIN = (("task", "dataset"), ("task", "step_unit"), ("compressor", "norm"), ("update", "form"), ("logger", "mode"))
"""Options, some of which take an object and some a plain value."""


@pytest.fixture
def spy(write_package: Callable) -> None:
    """A package of a user's whose parts all end the process with exit status 0 when they are called."""
    write_package("spy", {"__init__.py": SPY})


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_of_another_kind_is_not_called(target: str, spy: None) -> None:
    run = configuration(*SMALL, "logger=wandb")
    parts = [(place, replace(getattr(run, place), target=target, options={})) for place in PLACES]
    for place, option in WITHIN:
        part = getattr(run, place)
        parts.append((place, replace(part, options={**part.options, option: {"_target_": target}})))
    for place, part in parts:
        changed = replace(run, packages=("spy", "venv"), **{place: part})
        with pytest.raises(UsageError, match=target):
            check(changed), build_task(changed)  # as a command does before it trains


@pytest.mark.parametrize("package", ["setuptools", "spy"])
def test_no_file_lets_in_a_package(package: str, spy: None, tmp_path: Path) -> None:
    """A frozen run, a figure and a figure's overrides."""
    said = re.escape("only the command line may allow a package")
    given = {**config_of(configuration(*SMALL)), "packages": [package], "compressor": {"_target_": f"{package}.main"}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(given))
    with pytest.raises(UsageError, match=said):
        read_run(yaml.safe_load((tmp_path / "job.yaml").read_text()), [])
    for key in ("overrides", "grid"):
        node = resolve(compose(["figure=demo"], "reproduction"))["figure"]
        text = f"packages=[{package}]"
        node[key] = [*node[key], [text] if key == "grid" else text]
        figure = of_figure.read_figure(Reproduction(figure=node), lambda: False)
        with pytest.raises(UsageError, match=said):
            runs_of(figure, [])


def test_nor_does_a_figures_file(spy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figure").mkdir()
    figure = "# @package _global_\ndefaults: [demo@figure, _self_]\npackages: [spy]\n"
    (tmp_path / "figure" / "sly.yaml").write_text(figure)
    with suppress(SystemExit):
        reproduce.main(["-cd", str(tmp_path), "figure=sly"])
    assert "only the command line may allow a package" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("spy", "figure")] == []


LOADS = "{_target_: joblib.load, filename: payload.pkl}"
OF_FILES = {
    "sweep/sly": f"# @package _global_\nhydra: {{callbacks: {{sly: {LOADS}}}}}",
    "sweep/theirs": "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {sampler: {independent_sampler: "
    f"{LOADS}}}}}}}\ndefaults: [override hydra/sweeper: optuna]",
    "sweep/package": f"# @package hydra.callbacks\nsly: {LOADS}",
    "sweep/hydra": f"# @package _name_.callbacks\nsly: {LOADS}",
    "sweep/elsewhere": "defaults: [/extra@hydra.callbacks.sly: calls]",
    "hydra/callbacks/sly": f"sly: {LOADS}",
}


class Payload:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple:
        return Path.touch, (Path("ran"),)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "sweep/sly" else pytest.mark.slow) for name in OF_FILES]
)
def test_no_file_sets_anything_below_hydra(name, tmp_path, monkeypatch, capsys):
    """What Hydra calls before a run: here a pickle that leaves a file."""
    monkeypatch.chdir(tmp_path)
    Path("payload.pkl").write_bytes(pickle.dumps(Payload()))
    for file, text in {name: OF_FILES[name], "extra/calls": LOADS}.items():
        target = tmp_path / "theirs" / f"{file}.yaml"
        target.parent.mkdir(parents=True)
        target.write_text(text)
    group, _, choice = name.rpartition("/")
    seen = sorted(tmp_path.iterdir())
    assert exit_code(["-cd", "theirs", f"{'+' * (group != 'sweep')}{group}={choice}", *SMALL]) == 2
    assert f"theirs/{name}: a file may not set anything below hydra" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == seen


@pytest.mark.slow
def test_a_packages_file_sets_nothing_below_hydra_and_the_command_line_does(package, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sly = package / "conf" / "compressor" / "sly.yaml"
    sly.write_text("# @package _global_\ncompressor: {_target_: their_package.compressor.Mine}\nhydra: {mode: RUN}\n")
    assert exit_code(["-m", "compressor=sly,identity", "packages=[their_package]", *SMALL]) == 2
    assert "a file may not set anything below hydra" in capsys.readouterr().err
    assert exit_code(["+hydra.callbacks.sly._target_=their_package.nowhere", *SMALL]) == 2
    assert "their_package.nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["venv.create", "spy.unsaid", "spy.nothing", "experiments.run.main"])
def test_check_calls_nothing_of_another_kind(target: str, spy: None, capsys: pytest.CaptureFixture) -> None:
    method = "algorithms.methods.cd_adam.cd_adam"
    for line in ([target], [method, f"compressor._target_={target}"], ["spy.method", f"extra._target_={target}"]):
        with pytest.raises(SystemExit) as ended:
            check_command.main(line)
        assert (ended.value.code, capsys.readouterr().out) == (2, "")
