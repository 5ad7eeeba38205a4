"""Values held against the schema's types, choices and ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from typing import Any

from common.errors import UsageError
from common.names import unknown
from experiments.config import schema
from experiments.config.signatures import fits, wanted


def check_keys(node: object, names: Iterable[str], place: str, required: Iterable[str] = ()) -> None:
    """Raise UsageError for keys of a node that are not among the names, and for required ones that are not there."""
    names = list(names)
    if not isinstance(node, Mapping):
        raise UsageError(f"{place}={node}: must have keys of its own")
    for key in node:
        if key not in names:
            raise UsageError(unknown(f"{place}: {key}: no such key", str(key), names))
    for key in required:
        if key not in node:
            raise UsageError(f"{place}: has no {key}; it needs {', '.join(required)}")


def checked(kind: type, node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a node for a dataclass of the schema, parts and keys of their own aside. Raises UsageError."""
    plain = [
        one for one in fields(kind) if not schema.is_part(one) and isinstance(one.type, str) and one.name != "cluster"
    ]
    return {one.name: check_value(node[one.name], f"{prefix}{one.name}", one) for one in plain}


def check_value(value: Any, key: str, one: Field[Any]) -> Any:
    """The value in its canonical form: numbers as their type has them, lists as tuples.

    Raises UsageError with type, unit, range or choices for what is none.
    """
    about = schema.about(one)
    kind = f"{one.type} | None" if about.derived else str(one.type)
    if key == "lr":
        return _step_sizes(value)
    if key == "seed" and isinstance(value, list):
        raise UsageError(f"seed={value}: a run has one seed; -m seed={','.join(map(str, value))} starts one run each")
    if kind == "Sequence[str]":
        if not isinstance(value, (list, tuple)) or not all(isinstance(some, str) for some in value):
            raise UsageError(f"{key}={value}: must be a list of names, [my_package] say")
        return tuple(value)
    if not fits(value, kind):
        whole = isinstance(value, float) and value.is_integer() and kind.startswith("int")
        unit = f"; it counts {about.unit}, with no unit behind it" if about.unit and isinstance(value, str) else ""
        raise UsageError(f"{key}={value}: must be {wanted(kind)}{f'; write {int(value)}' if whole else unit}")
    if about.choices and value not in about.choices:
        raise UsageError(unknown(f"{key}={value}: no such choice", str(value), about.choices))
    if value is not None and about.least is not None and value < about.least:
        raise UsageError(f"{key}={value}: must be a whole number of at least {about.least}")
    if value is not None and about.positive and not 0 < value < math.inf:
        raise UsageError(f"{key}={value}: must be a positive number{f' of {about.unit}' if about.unit else ''}")
    return float(value) if kind.startswith("float") and value is not None else value


def _step_sizes(value: Any) -> tuple[float, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    for some in values:
        if isinstance(some, bool) or not isinstance(some, (int, float)):
            raise UsageError(f"lr={some}: not a number")
    if not values or not all(0 < some < math.inf for some in values):
        raise UsageError(f"lr={value}: step sizes are positive numbers, or a non-empty list of them")
    if len(set(values)) < len(values):
        raise UsageError(f"lr={value}: a step size stands there twice")
    return tuple(map(float, values))
