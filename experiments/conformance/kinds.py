"""What kind of thing a class or function is, and how it is built to be checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from algorithms.compressors import Compressor
from common.errors import UsageError
from data.dataset import Dataset
from data.embedded import breast_cancer, digit_images
from data.images import Images
from experiments.config.classes import Targets, missing, parameter_types
from experiments.config.compose import Config
from experiments.conformance import algorithms, compressors, datasets, tasks
from experiments.conformance.findings import Check, Violation
from experiments.conformance.methods import Method
from experiments.conformance.probes import SEED, WORKERS, BuildTask
from experiments.models.small_cnn import small_cnn


@dataclass(frozen=True)
class Kind:
    """A compressor, an algorithm, a task or a data set."""

    name: str
    looks_like: str
    includes: Callable[[object], bool]
    subject: Callable[[Callable, Config, Targets], object]
    """What the checks are handed, for a class or function and the configuration that names it with its options."""
    checks: tuple[Check, ...]


def kind_of(target: object, name: str) -> Kind:
    """The kind that a class or function is of. Raises UsageError where it is of none; `name` is what it is called."""
    for kind in KINDS:
        if kind.includes(target):
            return kind
    raise UsageError(f"{name}: can be checked if it is {'; '.join(kind.looks_like for kind in KINDS)}")


def _compressor(target: Callable, node: Config, targets: Targets) -> Compressor:
    _complete(target, node)
    return targets.build(node, "compressor")


def _algorithm(target: Callable, node: Config, targets: Targets) -> Method:
    _complete(target, node, {"compressor", "update", "rounds"})
    targets.check_options(node, "algorithm")
    options = {
        key: targets.build(value, f"algorithm.{key}") if isinstance(value, dict) else value
        for key, value in node.items()
        if key != "_target_"
    }
    method = Method(target, **options)
    try:
        method.cases()
    except Violation as violation:
        raise UsageError(f"algorithm: {violation}; set compressor._target_=…, or other options") from violation
    return method


def _task(target: Callable, node: Config, targets: Targets) -> BuildTask:
    hints = parameter_types(target)
    stand_ins = {name: STAND_INS[hints[name]] for name in hints if hints[name] in STAND_INS and name not in node}
    _complete(target, node, {"workers", "seed", "ids", *stand_ins})

    def build(**options: Any) -> Any:
        return targets.build(node, "task", **{name: make() for name, make in stand_ins.items()}, **options)

    build(workers=WORKERS, seed=SEED, ids=None)
    return build


def _dataset(target: Callable, node: Config, targets: Targets) -> datasets.Load:
    _complete(target, node)
    targets.build(node, "dataset")
    return lambda: targets.build(node, "dataset")


def _complete(target: Callable, node: Config, given: Collection[str] = ()) -> None:
    """Raise UsageError where an option without default is neither set by the node nor among those `given`."""
    without = missing(target, {*node, *given})
    if without:
        wanted = " ".join(f"{name}=…" for name in without)
        raise UsageError(f"{node['_target_']}: set {wanted}, for which there is no default")


def _returns(target: object, *kinds: type) -> bool:
    return inspect.isfunction(target) and parameter_types(target).get("return") in kinds


STAND_INS: dict[type, Callable[[], object]] = {
    Dataset: breast_cancer,
    Images: digit_images,
    nn.Module: lambda: small_cnn(4),
    torch.device: lambda: torch.device("cpu"),
}
"""What a task's parameters of these types are where they are not set."""

KINDS = (
    Kind(
        "compressor",
        "a compressor, a subclass of algorithms.compressors.Compressor",
        lambda target: inspect.isclass(target) and issubclass(target, Compressor),
        _compressor,
        compressors.CHECKS,
    ),
    Kind(
        "task",
        "a task, a class with the methods `gradients` and `evaluate` of experiments.tasks.task.Task",
        lambda target: inspect.isclass(target) and hasattr(target, "gradients") and hasattr(target, "evaluate"),
        _task,
        tasks.CHECKS,
    ),
    Kind(
        "algorithm",
        "an algorithm, a function with a parameter `compressor` that returns an algorithms.protocol.Algorithm",
        lambda target: inspect.isfunction(target) and "compressor" in inspect.signature(target).parameters,
        _algorithm,
        algorithms.CHECKS,
    ),
    Kind(
        "data set",
        "or a data set, a function annotated to return a data.dataset.Dataset or data.images.Images",
        lambda target: _returns(target, Dataset, Images),
        _dataset,
        datasets.CHECKS,
    ),
)
