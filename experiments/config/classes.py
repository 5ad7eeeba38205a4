"""What `_target_` may name, and how a node of a configuration becomes the object that it describes."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from common.errors import UsageError
from common.names import explain_unknown
from experiments.config.schema import Part
from experiments.config.values import validate

PACKAGES = ("algorithms", "data", "experiments")
"""This project's own."""

_GIVEN = ("compressor", "update", "rounds", "workers", "seed", "d", "layout", "ids", "device")
"""What a class is called with besides its options."""

Node = Mapping[str, Any]
"""A class or function, `_target_`, and options to call it with."""


class Classes:
    """The classes and functions of this project and of the packages that the user named."""

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self.packages = (*PACKAGES, *packages)

    def find(self, node: Node, path: str, kind: Any = None) -> Callable[..., Any]:
        """The `_target_` of a node, which lies at `path`, imported. Every option of it was checked against the
        parameter that it will become, and so were those of the nodes within it; none of them is called.

        kind: the class of what its place takes, or several as a union; None for any. By its own class, or by what it
        is annotated to return, the target makes one; those within it fit the parameters that they become in the same
        way. Raises UsageError.
        """
        target = self.imported(node, path)
        if kind is not None:
            _check_kind(target, kind, f"{path}._target_={node['_target_']}")
        known = parameters(target)
        for key, value in node.items():
            place = f"{path}.{key}"
            if key == "_target_":
                continue
            if key not in known:
                raise UsageError(explain_unknown(f"{place}: {node['_target_']} has no such option", key, known))
            wanted = known[key].annotation
            if _is_node(value):
                self.find(value, place, wanted)
            elif _is_a_kind(wanted):
                raise UsageError(f"{place}={value}: must be a {wanted.__name__}, with a _target_ of its own")
            else:
                validate(value, wanted, place)
        return target

    def imported(self, node: Node, path: str) -> Callable[..., Any]:
        """The `_target_` of a node, whatever it makes. Raises UsageError where it is none of theirs."""
        name = str(node.get("_target_"))
        if "." not in name or not self._covers(name):
            raise UsageError(f"{path}._target_={name}: {foreign(name, self.packages)}")
        try:
            target = locate(name)
        except Exception as error:  # a user's module may raise anything
            raise UsageError(f"{path}._target_={name}: {type(error).__name__}: {error}") from error
        # A module of ours leads to every module that it imports: what counts is where the object was defined.
        if not callable(target) or not self._covers(str(getattr(target, "__module__", ""))):
            raise UsageError(f"{path}._target_={name}: {foreign(name, self.packages)}")
        return target

    def build(self, node: Node, path: str, kind: Any, offered: Node | None = None, **extra: Any) -> Any:
        """What a node describes, of a kind as `find` has it, called with its options and `extra`.

        offered: further arguments; one that it has no parameter for is left out. Raises UsageError for what does not
        fit, before anything is called.
        """
        target = self.find(node, path, kind)
        known, options = parameters(target), {key: value for key, value in node.items() if key != "_target_"}
        extra |= {name: value for name, value in (offered or {}).items() if name in known}
        for key, value in options.items():
            if _is_node(value):
                options[key] = self.build(value, f"{path}.{key}", known[key].annotation)
        try:
            inspect.signature(target).bind(**options, **extra)
            return target(**options, **extra)
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
        except TypeError as error:
            if not str(error).startswith(("missing a required", "Can't instantiate abstract")):
                raise
            raise UsageError(f"{path}: {node['_target_']}: {error}") from error

    def _covers(self, name: str) -> bool:
        return name.partition(".")[0] in self.packages


def foreign(name: str, packages: Iterable[str] = PACKAGES) -> str:
    """What a target must be, and how a package of one's own is let in."""
    own = f"a package of your own is let in by packages=[{name.partition('.')[0]}]"
    return f"must be a class or function of {', '.join(packages)}; {own}"


def called(part: Part) -> dict[str, Any]:
    """A part as a node, without its labels."""
    return {"_target_": part.target, **part.options}


def locate(name: str) -> Any:
    """What `package.module.Name` names, imported."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


@cache
def parameters(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What a class or function is called with, by name, each annotated by its type. Raises UsageError."""
    plain, hints = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY), parameter_types(target)
    found = inspect.signature(target).parameters.values()
    return {one.name: one.replace(annotation=hints.get(one.name, Any)) for one in found if one.kind in plain}


def parameter_types(target: Callable[..., Any]) -> dict[str, Any]:
    """The types of what a class or function is called with, by name. Raises UsageError."""
    known: dict[str, Any] = {}
    for kind in reversed(inspect.getmro(target)) if inspect.isclass(target) else ():
        known |= vars(sys.modules[kind.__module__])  # a dataclass has fields of its bases, written for their modules
    try:
        if known:
            return get_type_hints(target.__init__, localns=known, include_extras=True)
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{target.__module__}.{target.__qualname__}: an annotation is not a type: {error}"
        ) from error


def defaults(target: Callable[..., Any]) -> dict[str, Any]:
    """The options that a configuration has without being told: those with a default that it can write."""
    found = {name: one.default for name, one in parameters(target).items() if name not in _GIVEN}
    return {name: default for name, default in found.items() if _is_plain(default)}


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | None)


def makes(target: Callable[..., Any], kind: Any) -> bool:
    """Whether a class, or a function by its annotation, makes an object of a kind or of one in a union."""
    made = target if inspect.isclass(target) else _plain(parameter_types(target).get("return"))
    return any(_is_one(made, one) for one in _kinds(kind))


def _check_kind(target: Callable[..., Any], kind: Any, place: str) -> None:
    if not _kinds(kind):
        raise UsageError(f"{place}: this parameter takes no object")
    if not makes(target, kind):
        words = " or ".join(f"{one.__module__}.{one.__name__}" for one in _kinds(kind))
        raise UsageError(
            f"{place}: was not called: it must be a class of kind {words}, or be annotated to return one"
        )


def _kinds(kind: Any) -> list[type]:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]
    return [one for one in map(_plain, kinds) if _is_a_kind(one)]


def _is_one(made: Any, kind: type) -> bool:
    if getattr(kind, "_is_protocol", False):
        methods = [name for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"]
        return inspect.isclass(made) and all(callable(getattr(made, name, None)) for name in methods)
    return inspect.isclass(made) and issubclass(made, kind)


def _is_a_kind(kind: Any) -> bool:
    """Whether objects of a class are described by nodes; Python's own, numbers and paths say, are plain values."""
    return inspect.isclass(kind) and kind.__module__.partition(".")[0] not in sys.stdlib_module_names


def _plain(kind: Any) -> Any:
    """A class without its own parameters: Update of Update[Moments]."""
    return get_origin(kind) or kind


def _is_node(value: object) -> bool:
    return isinstance(value, Mapping) and "_target_" in value
