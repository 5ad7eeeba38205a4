"""Values checked against types, choices and ranges.

Pydantic judges what YAML and a command line give as it judges JSON, strictly: neither 1.0 nor true is a whole number.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields
from functools import cache
from typing import Annotated, Any, cast, get_args, get_origin

import pydantic

from common.errors import UsageError
from common.names import unknown
from experiments.config import schema


def validate(value: Any, kind: Any, place: str, hint: str = "", **bounds: float | None) -> Any:
    """The value as a parameter of the annotated type takes it: 1 is a float, a list may be a tuple.

    bounds: of a number, as pydantic.Field has them. Raises UsageError, with the hint; numbers must be finite.
    """
    try:
        given = json.dumps(value, allow_nan=False, default=str)
        return _adapter(kind, **bounds).validate_json(given, strict=True)
    except pydantic.ValidationError as error:
        said = " or ".join(dict.fromkeys(one["msg"].removeprefix("Input should be ") for one in error.errors()))
        raise UsageError(f"{place}={value}: must be {said.replace('array', 'list')}{hint}") from error
    except ValueError as error:
        raise UsageError(f"{place}={value}: must be a finite number") from error


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
    plain = [one for one in fields(kind) if not schema.is_part(one) and one.name != "cluster"]
    return {one.name: check_value(node[one.name], f"{prefix}{one.name}", one) for one in plain}


def check_value(value: Any, key: str, one: Field[Any]) -> Any:
    """The value in its canonical form: numbers as their type has them, lists as tuples.

    Raises UsageError with type, unit, range or choices for what is none.
    """
    about = schema.about(one)
    if key == "lr":
        values = tuple(validate(some, float, key, gt=0) for some in (value if isinstance(value, list) else [value]))
        if len(set(values)) < max(len(values), 1):
            raise UsageError(f"lr={value}: give at least one step size, and none of them twice")
        return values
    kind = cast(Any, one.type)
    if about.derived:
        kind = kind | None
    hint = f"; it counts {about.unit}" if about.unit else ""
    if str in (kind, *get_args(kind)) and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)  # a name of digits
    value = validate(value, kind, key, hint, ge=about.least, gt=0 if about.positive else None)
    if about.choices and value not in about.choices:
        raise UsageError(unknown(f"{key}={value}: no such choice", str(value), about.choices))
    return tuple(value) if get_origin(kind) is Sequence else value


@cache
def _adapter(kind: Any, **bounds: Any) -> pydantic.TypeAdapter:
    try:
        return pydantic.TypeAdapter(Annotated[kind, pydantic.Field(**bounds)])  # pyright: ignore
    except pydantic.PydanticUserError:  # a class of the project or of torch: what it is made of is checked there
        return pydantic.TypeAdapter(Any)
