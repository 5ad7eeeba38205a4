"""Check values against types, choices and ranges.

Pydantic checks values of YAML and command lines as strictly as JSON: neither 1.0 nor true is a whole number.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any, cast

import pydantic
from pydantic import PositiveFloat

from common.errors import UsageError
from common.names import explain_unknown
from experiments.config import schema


def validate(value: Any, kind: Any, place: str, hint: str = "") -> Any:
    """Convert a value to an annotated type: 1 may be a float, and a list a tuple.

    Raises UsageError, with the hint, if it does not fit. Numbers must be finite.
    """
    try:
        return _adapter(kind).validate_json(json.dumps(value, allow_nan=False, default=str), strict=True)
    except pydantic.ValidationError as error:
        if {fault["type"] for fault in error.errors()} == {"literal_error"}:
            raise UsageError(
                explain_unknown(f"{place}={value}: no such choice", str(value), schema.limits(kind))
            ) from error
        known = {"missing": "should have more items"}
        texts = (known.get(each["type"], each["msg"].replace(" after validation", "")) for each in error.errors())
        wanted = " or ".join(dict.fromkeys(text.partition("should ")[2] or f"be {text}" for text in texts))
        wanted = wanted.replace(" or be ", " or ").replace("array", "list")
        raise UsageError(f"{place}={value}: must {wanted}{hint}") from error
    except ValueError as error:
        raise UsageError(f"{place}={value}: must be a finite number") from error


def check_keys(node: object, names: Iterable[str], place: str, required: Iterable[str] = ()) -> None:
    """Raise UsageError for unknown keys of a node, and for missing required ones."""
    names = list(names)
    if not isinstance(node, Mapping):
        raise UsageError(f"{place}={node}: must have keys of its own")
    for key in node:
        if key not in names:
            raise UsageError(explain_unknown(f"{place}: {key}: no such key", str(key), names))
    for key in required:
        if key not in node:
            raise UsageError(f"{place}: has no {key}; it needs {', '.join(required)}")


def read_keys(kind: type, node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a node's checked values for a dataclass of the schema, without parts and cluster. Raises UsageError."""
    plain = [key for key in fields(kind) if not schema.is_part(key) and key.name != "cluster"]
    check_keys(node, node, "configuration", [key.name for key in plain])
    return {key.name: _validate_key(node[key.name], f"{prefix}{key.name}", key) for key in plain}


def _validate_key(value: Any, place: str, key: Field[Any]) -> Any:
    if place == "lr":
        values = tuple(validate(lr, PositiveFloat, place) for lr in (value if isinstance(value, list) else [value]))
        if len(set(values)) < max(len(values), 1):
            raise UsageError(f"lr={value}: give at least one step size, and none of them twice")
        return values
    about = schema.spec_of(key)
    kind = cast(Any, key.type) | None if about.derived else key.type
    return validate(value, kind, place, f"; it counts {about.unit}" if about.unit else "")


@cache
def _adapter(kind: Any) -> pydantic.TypeAdapter:
    try:
        return pydantic.TypeAdapter(kind)
    except pydantic.PydanticUserError:  # a class of the project or of torch, checked elsewhere
        return pydantic.TypeAdapter(Any)
