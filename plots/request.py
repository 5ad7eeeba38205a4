"""Command lines of key=value for what looks at results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from common.names import unknown


class RequestError(ValueError):
    """Something was asked for that is not there or that is not understood; nothing was written."""


def parse(arguments: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults with what the arguments say. Raises RequestError for an argument of another form or key."""
    values = dict(defaults)
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise RequestError(f"{text}: not of the form key=value; keys: {', '.join(defaults)}")
        if key not in defaults:
            raise RequestError(unknown(f"{key}: no such key", key, defaults))
        values[key] = value
    return values


def chosen(key: str, value: str, names: Iterable[str]) -> str:
    """The value, which must be one of the names. Raises RequestError."""
    names = list(names)
    if value not in names:
        raise RequestError(unknown(f"{key}={value}: no such choice", value, names))
    return value


def positive(key: str, value: str, unit: str, zero: bool = False) -> float:
    """The value as a positive number, or where `zero` says so 0. Raises RequestError."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf or (number == 0 and not zero):
        kind = "number of at least 0" if zero else "positive number"
        raise RequestError(f"{key}={value}: must be a {kind}, in {unit} without saying so")
    return number
