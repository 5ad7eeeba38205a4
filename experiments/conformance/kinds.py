"""Which kind a class or function is of, and what the contract tests of that kind are handed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from algorithms.compressors import Compressor
from algorithms.protocol import Algorithm
from algorithms.updates import Update
from common.errors import UsageError
from data.dataset import Dataset
from data.embedded import breast_cancer, digit_images
from data.images import Images
from experiments.config.classes import Classes
from experiments.config.compose import Config
from experiments.conformance.test_algorithm import cases
from experiments.models.small_cnn import small_cnn

STAND_INS: dict[object, Callable[[], object]] = {
    Dataset: breast_cancer,
    Images: digit_images,
    nn.Module: lambda: small_cnn(4),
    torch.device: lambda: torch.device("cpu"),
}
"""What a task's parameters of these types are where they are not set."""

PARTS = (Compressor, Update, Dataset, Images, nn.Module)
"""What an option may be that names a class or function."""

KINDS = (
    "a compressor, a subclass of algorithms.compressors.Compressor; a task, a class with the methods `gradients` and "
    "`evaluate` of experiments.tasks.task.Task; an algorithm, a function with a parameter `compressor` that returns "
    "an algorithms.protocol.Algorithm; or a data set, a function annotated to return a data.dataset.Dataset or "
    "data.images.Images"
)


class Subject(NamedTuple):
    """What is tested: its kind, and the values of the fixture of that kind's tests, by name."""

    kind: str
    fixture: str
    values: dict[str, Any]

    @property
    def file(self) -> Path:
        """The tests of its kind."""
        return Path(__file__).with_name(f"test_{self.kind}.py")


def subject(node: Config) -> Subject:
    """What a configuration's `_target_` and options describe; what it names is imported, and called if of a kind.

    Raises UsageError where it is of no kind, or cannot be built with these options.
    """
    nodes = dict(_nodes(node))
    # What the command line names is what lets its packages in.
    classes = Classes([str(part["_target_"]).partition(".")[0] for part in nodes.values()])
    target = classes.find(node, "target")
    kind = _kind(target)
    del nodes["target"]
    for path, part in nodes.items():
        if not issubclass(_result(classes.find(part, path)), PARTS):
            kinds = ", ".join(kind.__name__ for kind in PARTS)
            raise UsageError(f"{path}: {part['_target_']} must be, or be annotated to return, one of {kinds}")
    if kind == "compressor":
        compressor = classes.build(node, kind)
        return Subject(kind, kind, {str(compressor): compressor})
    if kind == "dataset":
        classes.build(node, kind)
        return Subject(kind, "load", {"": lambda: classes.build(node, kind)})
    if kind == "task":
        known = inspect.signature(target, eval_str=True).parameters
        types = {name: known[name].annotation for name in known if name not in node}
        stand_ins = {name: STAND_INS[kind] for name, kind in types.items() if kind in STAND_INS}

        def build(**of_the_run: Any) -> Any:
            return classes.build(node, kind, **{name: make() for name, make in stand_ins.items()}, **of_the_run)

        build(workers=4, seed=0, ids=None)
        return Subject(kind, "build_task", {"": build})
    classes.check(node, kind)
    options = {key: value for key, value in node.items() if key != "_target_"}
    built = {key: classes.build(nodes[f"target.{key}"], key) for key in options if f"target.{key}" in nodes}
    try:
        return Subject(kind, "build_algorithm", {str(case): case for case in cases(target, **options | built)})
    except (ValueError, TypeError) as error:
        raise UsageError(f"algorithm: {error}; set compressor._target_=…, or other options") from error


def _kind(target: Callable) -> str:
    """Found by its class or its annotations alone: nothing is called."""
    result = _result(target)
    if issubclass(result, Compressor):
        return "compressor"
    if issubclass(result, Dataset | Images):
        return "dataset"
    if inspect.isclass(target) and hasattr(target, "gradients") and hasattr(target, "evaluate"):
        return "task"
    untyped = result is object and inspect.isfunction(target) and "compressor" in inspect.signature(target).parameters
    if issubclass(result, Algorithm) or untyped:
        return "algorithm"
    raise UsageError(f"{target.__module__}.{target.__qualname__}: can be checked if it is {KINDS}")


def _result(target: Callable) -> type:
    """A class itself; of a function the class that it is annotated to return; object where that is not known."""
    if inspect.isclass(target):
        return target
    returned = inspect.signature(target, eval_str=True).return_annotation if inspect.isfunction(target) else None
    return returned if inspect.isclass(returned) and returned is not inspect.Signature.empty else object


def _nodes(node: Config, path: str = "target") -> Iterator[tuple[str, Config]]:
    """A configuration and the parts of it that name something too, by their keys."""
    yield path, node
    for key, value in node.items():
        if isinstance(value, dict) and "_target_" in value:
            yield from _nodes(value, f"{path}.{key}")
