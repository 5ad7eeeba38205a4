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
        if {one["type"] for one in error.errors()} == {"literal_error"}:
            raise UsageError(
                explain_unknown(f"{place}={value}: no such choice", str(value), schema.limits(kind))
            ) from error
        known = {"missing": "should have more items"}
        found = (known.get(one["type"], one["msg"].replace(" after validation", "")) for one in error.errors())
        said = " or ".join(dict.fromkeys(text.partition("should ")[2] or f"be {text}" for text in found))
        said = said.replace(" or be ", " or ").replace("array", "list")
        raise UsageError(f"{place}={value}: must {said}{hint}") from error
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
    plain = [one for one in fields(kind) if not schema.is_part(one) and one.name != "cluster"]
    check_keys(node, node, "configuration", [one.name for one in plain])
    return {one.name: _validate_key(node[one.name], f"{prefix}{one.name}", one) for one in plain}


def _validate_key(value: Any, key: str, one: Field[Any]) -> Any:
    if key == "lr":
        values = tuple(validate(lr, PositiveFloat, key) for lr in (value if isinstance(value, list) else [value]))
        if len(set(values)) < max(len(values), 1):
            raise UsageError(f"lr={value}: give at least one step size, and none of them twice")
        return values
    about = schema.spec_of(one)
    kind = cast(Any, one.type) | None if about.derived else one.type
    return validate(value, kind, key, f"; it counts {about.unit}" if about.unit else "")


@cache
def _adapter(kind: Any) -> pydantic.TypeAdapter:
    try:
        return pydantic.TypeAdapter(kind)
    except pydantic.PydanticUserError:  # a class of the project or of torch, checked elsewhere
        return pydantic.TypeAdapter(Any)
