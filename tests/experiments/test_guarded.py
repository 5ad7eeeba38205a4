"""Files that would run code: whatever they name, no column is called that is not of the kind that its place takes."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import yaml
from run_support import SMALL, configuration, stopped

from common.errors import UsageError
from experiments import check, reproduce
from experiments.config.compose import compose, resolve
from experiments.config.run import plain, read
from experiments.config.schema import Part, Reproduction
from experiments.figures import configuration as of_figure
from experiments.figures.runs import runs_of
from experiments.training import build

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

TARGETS = [
    "experiments.run.main", "data.download.download", "common.errors._leave", "venv.create", "setuptools.setup",
    "spy.unsaid", "spy.nothing", "spy.number", "spy.Other", "spy.Half", "spy.made",
]  # fmt: skip

PLACES = ("compressor", "update", "algorithm", "task", "logger")
WITHIN = (("task", "dataset"), ("task", "step_unit"), ("compressor", "norm"), ("update", "form"), ("logger", "mode"))
"""Options, some of which take an object and some a plain value."""


@pytest.fixture
def spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of a user's whose parts all end the process with exit status 0 when they are called."""
    (tmp_path / "spy").mkdir()
    (tmp_path / "spy" / "__init__.py").write_text(SPY)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("spy", None)


def code_of(target: str) -> CodeType | None:
    """What runs when a target is called."""
    module, _, name = target.rpartition(".")
    found = getattr(import_module(module), name)
    found = getattr(found, "func", found)
    found = found.__init__ if isinstance(found, type) else getattr(found, "__wrapped__", found)
    return getattr(found, "__code__", None)


def refusal(action: Callable[[], object], target: str) -> str:
    """Why an action refuses, which must not have called the target."""
    code, called = code_of(target), []

    def watch(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is code:
            called.append(target)

    sys.setprofile(watch)
    try:
        with pytest.raises(UsageError) as refused:
            action()
    finally:
        sys.setprofile(None)
    assert not called
    return str(refused.value)


LET_IN = ("spy", "venv", "setuptools", "common")


def begun(**parts: Part) -> Callable[[], object]:
    """What a command does with a run before it trains."""
    whole = replace(configuration(*SMALL), packages=LET_IN, **parts)

    def action() -> None:
        build.check(whole)
        build.build_task(whole)

    return action


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_of_another_kind_is_not_called(target: str, spy: None) -> None:
    for place in PLACES:
        part = replace(getattr(configuration(*SMALL), place), target=target, options={})
        said = refusal(begun(**{place: part}), target)
        assert target in said, place
    for place, option in WITHIN:
        part = getattr(configuration(*SMALL, "logger=wandb") if place == "logger" else configuration(*SMALL), place)
        part = replace(part, options={**part.options, option: {"_target_": target}})
        said = refusal(begun(**{place: part}), target)
        assert target in said, (place, option)


@pytest.mark.parametrize("package", ["setuptools", "spy"])
def test_no_file_lets_in_a_package(package: str, spy: None, tmp_path: Path) -> None:
    """A frozen run, a figure and a figure's overrides."""
    said = re.escape("only the command line may allow a package")
    granted = {**plain(configuration(*SMALL)), "packages": [package], "compressor": {"_target_": f"{package}.main"}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(granted))
    with pytest.raises(UsageError, match=said):
        read(yaml.safe_load((tmp_path / "job.yaml").read_text()), [])
    for key in ("overrides", "grid"):
        node = resolve(compose(["figure=demo"], "reproduce"))["figure"]
        text = f"packages=[{package}]"
        node[key] = [*node[key], [text] if key == "grid" else text]
        figure = of_figure.read(Reproduction(figure=node), lambda: False)
        with pytest.raises(UsageError, match=said):
            runs_of(figure, [])


@pytest.mark.parametrize(
    "text", ["packages: [spy]", pytest.param("overrides: ['packages=[spy]']", marks=pytest.mark.slow)]
)
def test_nor_does_a_figures_file(
    text: str, spy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figure").mkdir()
    figure = f"# @package _global_\ndefaults: [demo@figure, _self_]\n{text}\n"
    (tmp_path / "figure" / "sly.yaml").write_text(figure)
    with suppress(SystemExit):
        reproduce.main(["-cd", str(tmp_path), "figure=sly"])
    assert "only the command line may allow a package" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("spy", "figure")] == []


HYDRAS = {
    "callbacks: {sly: {_target_: spy.nothing}}": "hydra.callbacks",
    "job_logging: {version: 1, handlers: {sly: {(): spy.nothing}}}": "hydra.job_logging",
    "hydra_logging: {version: 1, handlers: {sly: {(): spy.nothing}}}": "hydra.hydra_logging",
    "job: {env_set: {PYTHONPATH: elsewhere}}": "hydra.job.env_set",
}
COMMANDS = [
    ["compressor=sly", "--cfg", "job"],
    ["-m", "compressor=sly,identity", "hydra/launcher=basic"],
]


@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=() if "callbacks" in text else pytest.mark.slow) for text in HYDRAS]
)
def test_no_file_sets_what_hydra_calls_before_a_run(
    text: str, spy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "compressor").mkdir()
    (tmp_path / "compressor" / "sly.yaml").write_text(
        f"# @package _global_\ncompressor: {{_target_: algorithms.compressors.ScaledSign}}\nhydra: {{{text}}}\n"
    )
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    for words in COMMANDS if "callbacks" in text else [["compressor=sly"]]:
        assert stopped(["-cd", str(tmp_path), *words, *SMALL]) == 2, words
        assert f"{HYDRAS[text]}: set by a file" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("target", ["venv.create", "spy.unsaid", "spy.nothing", "experiments.run.main"])
def test_check_calls_nothing_of_another_kind(target: str, spy: None, capsys: pytest.CaptureFixture) -> None:
    method = "algorithms.methods.cd_adam.cd_adam"
    for line in ([target], [method, f"compressor._target_={target}"], ["spy.method", f"extra._target_={target}"]):
        with pytest.raises(SystemExit) as ended:
            check.main(line)
        assert (ended.value.code, capsys.readouterr().out) == (2, "")
