"""The options of a class or function, and which values they take, read from its source without running it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from functools import cache
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


def options(target: str) -> dict[str, Option]:
    """What `package.module.Name` is called with, by name and in order: a function's parameters, or those of the
    class's `__init__`, or a dataclass's fields with those of its bases.

    `*args` and `**kwargs` are none. Raises UsageError where the target is missing, or neither class nor function.
    """
    source, node = located(target)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return _parameters(source, node)
    if isinstance(node, ast.ClassDef):
        return _of_class(source, node) or {}
    raise UsageError(f"{target}: neither a class nor a function ({source.path}, line {getattr(node, 'lineno', 1)})")


def fits(value: object, annotation: str | None) -> bool:
    """Whether a value, as YAML gives it, is one of the annotated type. Of a type not known here every value is, but
    for numbers that are not finite."""
    return _fits(value, _expression(annotation or "object"))


def wanted(annotation: str | None) -> str:
    """The annotated type in words."""
    return "a finite number" if annotation is None else _wanted(_expression(annotation))


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
        place, _, name = ".".join((*source.exports.get(first, (first,)), rest)).rpartition(".")
        try:
            home = source_of(place) if rest else source
            found = home and home.find(name if rest else first)
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
    if isinstance(value, ast.Name) and (found := source.find(value.id)):
        source, node = found
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not value:
            return _default(source, node.value)
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


_PLAIN = {
    "float": ((int, float), "a number"),
    "int": ((int,), "a whole number"),
    "bool": ((bool,), "true or false"),
    "str": ((str,), "text"),
    "Path": ((str,), "text"),
    "None": ((type(None),), "null"),
    "list": ((list,), "a list"),
    "tuple": ((list, tuple), "a list"),
    "dict": ((dict,), "keys and values"),
}
"""The types of plain values, and what they are called."""


@cache
def _expression(annotation: str) -> ast.expr:
    try:
        return ast.parse(annotation.strip(), mode="eval").body
    except SyntaxError:
        return ast.Name("object")


def _choices(node: ast.expr) -> list[ast.expr]:
    """The members of a union, or the node alone."""
    if isinstance(node, ast.BinOp):
        return [*_choices(node.left), *_choices(node.right)]
    if isinstance(node, ast.Subscript) and _name(node) == "Place":
        return _choices(node.slice)
    if isinstance(node, ast.Subscript) and _name(node) in ("Optional", "Union"):
        return [*_parts(node), *([ast.Constant(None)] if _name(node) == "Optional" else [])]
    return [node]


def _parts(node: ast.expr) -> list[ast.expr]:
    """What stands within the brackets of `b[...]`."""
    if not isinstance(node, ast.Subscript):
        return []
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _fits(value: object, node: ast.expr) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    choices = _choices(node)
    if len(choices) > 1:
        return any(_fits(value, choice) for choice in choices)
    name, parts = _name(node), _parts(node)
    if name == "Literal":
        return any(type(value) is type(choice) and value == choice for choice in map(ast.literal_eval, parts))
    kinds = _PLAIN[name][0] if name in _PLAIN else (object,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds and object not in kinds):
        return False
    if isinstance(value, list | tuple) and name in ("list", "tuple") and parts:
        each = name == "list" or _name(parts[-1]) == "Ellipsis"
        wanted = [parts[0]] * len(value) if each else parts
        return len(value) == len(wanted) and all(map(_fits, value, wanted))
    return True


def _wanted(node: ast.expr) -> str:
    choices = _choices(node)
    if len(choices) > 1:
        return " or ".join(dict.fromkeys(map(_wanted, choices)))
    name, parts = _name(node), _parts(node)
    if name == "Literal":
        return " or ".join(str(ast.literal_eval(part)) for part in parts)
    if name == "tuple" and parts and _name(parts[-1]) != "Ellipsis":
        return f"a list of {', '.join(map(_wanted, parts))}"
    if name in ("list", "tuple") and parts:
        return f"a list, each of its values {_wanted(parts[0])}"
    return _PLAIN[name][1] if name in _PLAIN else name
