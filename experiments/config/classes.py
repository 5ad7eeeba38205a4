"""Resolve `_target_`, check its options, and build the objects that nodes of a configuration describe."""

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
"""This project's packages."""

_GIVEN = ("compressor", "update", "rounds", "workers", "seed", "d", "layout", "ids", "device")
"""Arguments that the harness passes besides a class's options."""

Node = Mapping[str, Any]
"""A class or function, `_target_`, and options to call it with."""


class Classes:
    """The classes and functions of this project and of the packages that the user named."""

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self.packages = (*PACKAGES, *packages)

    def find(self, node: Node, path: str, kind: Any = None) -> Callable[..., Any]:
        """Import a node's `_target_`, and check its options, also within nested nodes. Nothing is called.

        path: the node's place in the configuration. kind: the class that the target must create, or several as a
        union; None: any. A function's return annotation says what it creates. Options and inner nodes must fit the
        parameters' annotations. Raises UsageError.
        """
        target = self.import_target(node, path)
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
            elif _is_node_class(wanted):
                raise UsageError(f"{place}={value}: must be a {wanted.__name__}, with a _target_ of its own")
            else:
                validate(value, wanted, place)
        return target

    def import_target(self, node: Node, path: str) -> Callable[..., Any]:
        """Import a node's `_target_`. Raises UsageError unless it is a class or function of one of the packages."""
        name = str(node.get("_target_"))
        if "." not in name or not self._covers(name):
            raise UsageError(f"{path}._target_={name}: {target_hint(name, self.packages)}")
        try:
            target = locate(name)
        except Exception as error:  # a user's module may raise anything
            raise UsageError(f"{path}._target_={name}: {type(error).__name__}: {error}") from error
        # A module also names what it imports, so the module that defines the object counts.
        if not callable(target) or not self._covers(str(getattr(target, "__module__", ""))):
            raise UsageError(f"{path}._target_={name}: {target_hint(name, self.packages)}")
        return target

    def build(self, node: Node, path: str, kind: Any, offered: Node | None = None, **extra: Any) -> Any:
        """Build the object that a node describes from its options and `extra`. `find` explains `kind`.

        offered: further arguments, left out if the target has no such parameter. Raises UsageError, before it calls
        anything, if something does not fit.
        """
        target = self.find(node, path, kind)
        known, options = parameters(target), {key: value for key, value in node.items() if key != "_target_"}
        extra |= {name: value for name, value in (offered or {}).items() if name in known}
        for key, value in options.items():
            if _is_node(value):
                options[key] = self.build(value, f"{path}.{key}", known[key].annotation)
            elif isinstance(value, list):  # may become a tuple; single numbers stay as written
                options[key] = validate(value, known[key].annotation, f"{path}.{key}")
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


def target_hint(name: str, packages: Iterable[str] = PACKAGES) -> str:
    """Return the advice for a target outside the allowed packages."""
    own = f"allow a package of your own by packages=[{name.partition('.')[0]}]"
    return f"must be a class or function of {', '.join(packages)}; {own}"


def as_node(part: Part) -> dict[str, Any]:
    """Return a part as a node, without its labels."""
    return {"_target_": part.target, **part.options}


def locate(name: str) -> Any:
    """Import `package.module.Name`."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


@cache
def parameters(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return a target's parameters by name, each annotated by its type. Raises UsageError."""
    plain, hints = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY), parameter_types(target)
    found = inspect.signature(target).parameters.values()
    return {one.name: one.replace(annotation=hints.get(one.name, Any)) for one in found if one.kind in plain}


def parameter_types(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a target's parameters, by name. Raises UsageError."""
    known: dict[str, Any] = {}
    for kind in reversed(inspect.getmro(target)) if inspect.isclass(target) else ():
        known |= vars(sys.modules[kind.__module__])  # for fields of a dataclass's bases, annotated in their modules
    try:
        if known:
            return get_type_hints(target.__init__, localns=known, include_extras=True)
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{target.__module__}.{target.__qualname__}: an annotation is not a type: {error}"
        ) from error


def defaults(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of a target's options, as far as YAML can hold them."""
    options = {name: option.default for name, option in parameters(target).items() if name not in _GIVEN}
    return {name: default for name, default in options.items() if _is_plain(default)}


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | None)


def makes(target: Callable[..., Any], kind: Any) -> bool:
    """Whether a class, or a function by its return annotation, creates an object of a kind, or of one in a union."""
    made = target if inspect.isclass(target) else _without_parameters(parameter_types(target).get("return"))
    return any(_fits(made, wanted) for wanted in _kinds(kind))


def _check_kind(target: Callable[..., Any], kind: Any, place: str) -> None:
    if not _kinds(kind):
        raise UsageError(f"{place}: this parameter takes no object")
    if not makes(target, kind):
        words = " or ".join(f"{wanted.__module__}.{wanted.__name__}" for wanted in _kinds(kind))
        external = "; experiments.external trains external strategies" * words.endswith(".Algorithm")
        raise UsageError(f"{place}: must be a class of kind {words}, or be annotated to return one{external}")


def _kinds(kind: Any) -> list[type]:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]
    return [one for one in map(_without_parameters, kinds) if _is_node_class(one)]


def _fits(made: Any, kind: type) -> bool:
    if getattr(kind, "_is_protocol", False):
        methods = [name for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"]
        return inspect.isclass(made) and all(callable(getattr(made, name, None)) for name in methods)
    return inspect.isclass(made) and issubclass(made, kind)


def _is_node_class(kind: Any) -> bool:
    """Whether nodes describe objects of a class. Python's own, such as numbers and paths, are plain values."""
    return inspect.isclass(kind) and kind.__module__.partition(".")[0] not in sys.stdlib_module_names


def _without_parameters(kind: Any) -> Any:
    """Return a class without type parameters: Update for Update[Moments]."""
    return get_origin(kind) or kind


def _is_node(value: object) -> bool:
    return isinstance(value, Mapping) and "_target_" in value
