"""Find the kind of a class or function, and build the fixture of its contract tests."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from algorithms.compressors import Compressor
from algorithms.core.algorithm import Algorithm, leaves
from common.errors import UsageError
from data.dataset import Dataset, Images, Text
from experiments.config.classes import Classes, makes, parameter_types
from experiments.config.compose import Config
from experiments.contracts.test_algorithm import cases
from experiments.tasks.task import Task

KINDS = {"compressor": Compressor, "dataset": Dataset | Images | Text, "algorithm": Algorithm, "task": Task}

STAND_INS: dict[object, object] = {
    Dataset: {"_target_": "data.embedded.breast_cancer"},
    Images: {"_target_": "data.embedded.digit_images"},
    Text: {"_target_": "data.markov.markov", "length": 2000},
    nn.Module: {"_target_": "experiments.models.small_cnn.small_cnn", "width": 4},
}
"""Defaults of a task's parameters of these types."""


class Subject(NamedTuple):
    """The object under test: its kind, and the values of its tests' fixture by name."""

    kind: str
    fixture: str
    values: dict[str, Any]


def build_subject(node: Config) -> Subject:
    """Build the subject that a configuration's `_target_` and options describe.

    Raises UsageError if it is of no kind, or cannot be built with these options.
    """
    # Naming a target on the command line allows its package.
    named = [name for key, name in leaves(node) if key.rpartition(".")[2] == "_target_" and name]
    classes = Classes([str(name).partition(".")[0] for name in named])
    target = classes.import_target(node, "target")
    kind = _kind(target)
    if kind == "compressor":
        compressor = classes.build(node, kind, Compressor)
        return Subject(kind, kind, {str(compressor): compressor})
    if kind == "dataset":
        load = partial(classes.build, node, kind, Dataset | Images | Text)
        load()
        return Subject(kind, "load", {"": load})
    types = parameter_types(target)
    if kind == "task":
        whole = {name: STAND_INS[kind] for name, kind in types.items() if kind in STAND_INS} | node
        build = partial(classes.build, whole, kind, Task, {"device": torch.device("cpu")})
        build(workers=4, seed=0, ids=None)
        return Subject(kind, "build_task", {"": build})
    parts = {key: value for key, value in node.items() if isinstance(value, dict) and "_target_" in value}
    options = {key: value for key, value in node.items() if key not in parts}
    classes.find(options, kind)
    del options["_target_"]
    options |= {key: classes.build(part, key, types.get(key, Any)) for key, part in parts.items()}
    try:
        return Subject(kind, "build_algorithm", {str(case): case for case in cases(target, **options)})
    except (ValueError, TypeError) as error:
        raise UsageError(f"algorithm: {error}; set compressor._target_=…, or other options") from error


def _kind(target: Callable) -> str:
    for name, kind in KINDS.items():
        if makes(target, kind):
            return name
    raise UsageError(
        f"{target.__module__}.{target.__qualname__}: can be checked if it is a compressor, a subclass of "
        "algorithms.compressors.Compressor; a task, a class with the methods of experiments.tasks.task.Task; an "
        "algorithm, a function annotated to return an algorithms.core.algorithm.Algorithm, with a parameter "
        "`compressor`; or a data set, a function annotated to return a data.dataset.Dataset, data.dataset.Images or "
        "data.dataset.Text"
    )
