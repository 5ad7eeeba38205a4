"""What `_target_` may name, and how a node of a configuration becomes the object that it describes."""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from common.errors import UsageError
from experiments.config.compose import Config

PACKAGES = ("algorithms", "data", "experiments")
"""This project's own."""


class Targets:
    """The classes and functions of this project and of the packages that the user named."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = (*PACKAGES, *packages)

    def find(self, node: Config, path: str) -> Callable:
        """The `_target_` of a node. Raises UsageError where it is none of theirs; `path` is the node's key."""
        name = str(node.get("_target_"))
        module, _, last = name.rpartition(".")
        try:
            target = getattr(import_module(module), last) if module and self._covers(name) else None
        except Exception as error:  # a user's module may raise anything
            raise UsageError(f"{path}._target_={name}: {type(error).__name__}: {error}") from error
        # A module of ours leads to every module that it imports: what counts is where the object was defined.
        if not callable(target) or not self._covers(str(target.__module__)):
            raise UsageError(
                f"{path}._target_={name}: must be a class or function of {', '.join(self.packages)}; a package of "
                f"your own is let in by packages=[{name.partition('.')[0]}]"
            )
        return target

    def build(self, node: Config, path: str, **extra: Any) -> Any:
        """What a node describes, called with its options and `extra`. Raises UsageError for what does not fit."""
        self.check_options(node, path)
        without = missing(self.find(node, path), {*node, *extra})
        if without:
            raise UsageError(f"{path}: {node['_target_']} needs {', '.join(without)}, for which there is no default")
        options = {
            key: self.build(value, f"{path}.{key}") if _is_node(value) else value
            for key, value in node.items()
            if key != "_target_"
        }
        try:
            return self.find(node, path)(**options, **extra)
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
        except TypeError as error:
            if "abstract" not in str(error):
                raise
            raise UsageError(f"{path}: {error}") from error

    def check_options(self, node: Config, path: str) -> None:
        """Compare every option of a node with the annotation of the parameter it will become."""
        target = self.find(node, path)
        known = inspect.signature(target).parameters
        hints = parameter_types(target)
        for key, value in node.items():
            if key == "_target_":
                continue
            if key not in known:
                raise UsageError(f"{path}.{key}: {node['_target_']} has no such option")
            if _is_node(value):
                self.check_options(value, f"{path}.{key}")
            elif not _fits(value, hints.get(key)) or (isinstance(value, float) and not math.isfinite(value)):
                raise UsageError(f"{path}.{key}={value}: expected {_wanted(hints.get(key))}")

    def _covers(self, name: str) -> bool:
        return any(name == package or name.startswith(f"{package}.") for package in self.packages)


def parameter_types(target: Callable) -> dict[str, Any]:
    """The types of what a class or function is called with, by name. Raises UsageError."""
    known: dict[str, Any] = {}
    for kind in reversed(inspect.getmro(target)) if inspect.isclass(target) else ():
        known |= vars(sys.modules[kind.__module__])  # a dataclass has fields of its bases, written for their modules
    try:
        return get_type_hints(target.__init__, localns=known) if known else get_type_hints(target)
    except NameError as error:
        raise UsageError(f"{target.__module__}.{target.__qualname__}: an annotation is no type: {error}") from error


def missing(target: Callable, given: Iterable[str]) -> list[str]:
    """The parameters without default that are not among those given."""
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [some for some in inspect.signature(target).parameters.values() if some.kind in plain]
    return [some.name for some in parameters if some.default is some.empty and some.name not in given]


def _is_node(value: object) -> bool:
    return isinstance(value, dict) and "_target_" in value


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, choice) for choice in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(some, get_args(hint)[0]) for some in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _wanted(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_wanted(choice) for choice in get_args(hint))
    if get_origin(hint) is list:
        return f"a list, each of its values {_wanted(get_args(hint)[0])}"
    plain = {type(None): "null", int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return plain.get(hint) or getattr(hint, "__name__", "a finite number")
