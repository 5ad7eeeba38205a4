"""The options of a class or function, read from its source without running it."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from common.errors import UsageError
from experiments.config.sources import Source, located, source_of


class Option(NamedTuple):
    """A parameter or a dataclass's field."""

    name: str
    annotation: str | None  # as it is written
    default: object  # REQUIRED where there is none, COMPUTED where it is more than a literal or the name of one
    comment: str  # behind it on its line, without the #


class _Marker:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


REQUIRED = _Marker("REQUIRED")
COMPUTED = _Marker("COMPUTED")

_GIVEN = ("compressor", "update", "rounds", "workers", "seed", "d", "layout", "ids", "device")
"""What a class is called with besides its options."""


def options(target: str) -> dict[str, Option]:
    """What `package.module.Name` is called with, by name and in order: a function's parameters, or those of the
    class's `__init__`, or a dataclass's fields with those of its bases.

    `*args` and `**kwargs` are none. Raises UsageError where there is no such class or function.
    """
    source, node = located(target)
    return (_of_class(source, node) or {}) if isinstance(node, ast.ClassDef) else _parameters(source, node)


def defaults(target: str) -> dict[str, object]:
    """The options of a target that a configuration has without being told: those with a default that it can write.

    Raises as `options`.
    """
    found = {name: option.default for name, option in options(target).items() if name not in _GIVEN}
    return {name: default for name, default in found.items() if default not in (REQUIRED, COMPUTED)}


def _of_class(source: Source, node: ast.ClassDef) -> dict[str, Option] | None:
    """The options of a class; None where neither it nor a base that can be read says any."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return _parameters(source, part, skip=1)
    if _is_dataclass(node):
        return _fields(source, node)
    inherited = (_of_class(*base) for base in _bases(source, node))
    return next((found for found in inherited if found is not None), None)


def _fields(source: Source, node: ast.ClassDef) -> dict[str, Option]:
    """A dataclass's fields: those of its bases from the last to the first, then its own."""
    found: dict[str, Option] = {}
    for base in reversed(list(_bases(source, node))):
        found |= _fields(*base)
    for part in node.body if _is_dataclass(node) else ():
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        annotation, value = part.annotation, part.value
        if isinstance(value, ast.Call) and _name(value) == "field":
            details = {keyword.arg: keyword.value for keyword in value.keywords}
            if isinstance(init := details.get("init"), ast.Constant) and not init.value:
                continue
            value = details.get("default", details.get("default_factory"))
        if isinstance(annotation, ast.Subscript) and _name(annotation) == "InitVar":
            annotation = annotation.slice
        if _name(annotation) not in ("ClassVar", "KW_ONLY"):
            name = part.target.id
            found[name] = Option(name, _text(annotation), _default(source, value), _comment(source, part))
    return found


def _bases(source: Source, node: ast.ClassDef) -> Iterator[tuple[Source, ast.ClassDef]]:
    """The base classes whose source can be read."""
    for base in node.bases:
        first, _, rest = ast.unparse(base.value if isinstance(base, ast.Subscript) else base).partition(".")
        place, _ = source.exports.get(first, ("", ""))
        try:
            home = source_of(place) if rest else source
            found = home and home.find(rest or first)
        except UsageError:  # of a file that is not Python
            continue
        if found and isinstance(found[1], ast.ClassDef):
            yield found[0], found[1]


def _parameters(source: Source, node: ast.FunctionDef | ast.AsyncFunctionDef, skip: int = 0) -> dict[str, Option]:
    plain = [*node.args.posonlyargs, *node.args.args]
    defaults = [*[None] * (len(plain) - len(node.args.defaults)), *node.args.defaults, *node.args.kw_defaults]
    pairs = list(zip([*plain, *node.args.kwonlyargs], defaults, strict=True))[skip:]
    return {
        part.arg: Option(part.arg, _text(part.annotation), _default(source, value), _comment(source, value or part))
        for part, value in pairs
    }


def _default(source: Source, value: ast.expr | None) -> object:
    if value is None:
        return REQUIRED
    if isinstance(value, ast.Name):
        value = source.constant(value.id) or value
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError):
        return COMPUTED


def _comment(source: Source, node: ast.expr | ast.arg | ast.stmt) -> str:
    """What stands as a comment directly behind a node, but for a comma."""
    line = source.text.splitlines()[(node.end_lineno or 1) - 1]
    found = re.match(rb"\s*,?\s*#\s*(.*)", line[node.end_col_offset :])
    return found[1].decode(errors="replace").strip() if found else ""


def _text(annotation: ast.expr | None) -> str | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return annotation and ast.unparse(annotation)


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(_name(decorator) == "dataclass" for decorator in node.decorator_list)


def _name(node: ast.AST) -> str:
    """The last name of `a.b`, `b`, `b(...)` or `b[...]`; of a constant what it is."""
    if isinstance(node, ast.Call | ast.Subscript):
        return _name(node.func if isinstance(node, ast.Call) else node.value)
    return str(getattr(node, "id", getattr(node, "attr", getattr(node, "value", ""))))
