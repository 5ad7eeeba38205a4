"""Command lines of key=value for what looks at results."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from common.errors import RunError, UsageError, exit_with_message
from common.names import unknown

if TYPE_CHECKING:
    from plots.runs.network import Network

Name = TypeVar("Name", bound=str)
Part = TypeVar("Part")

NETWORK = {
    "network.bandwidth": "100", "network.latency": "1", "network.topology": "sharded", "network.overlap": "false",
    "network.computing": "",
}  # fmt: skip
"""The keys of a network, and what they are unless said."""


def words(program: str, about: str | None, arguments: Sequence[str] | None, metavar: str = "key=value") -> list[str]:
    """The words of a command line, which with --help says what it is about and ends."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar=metavar)
    return parser.parse_args(arguments).words


@contextmanager
def answering() -> Iterator[None]:
    """As `exit_with_message`; a ValueError, of what is damaged or does not match, means exit status 1."""
    with exit_with_message():
        try:
            yield
        except ValueError as error:
            raise RunError(str(error)) from error


def parse(arguments: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults with what the arguments say. Raises UsageError for an argument of another form or key."""
    values = dict(defaults)
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise UsageError(f"{text}: not of the form key=value; keys: {', '.join(defaults)}")
        if key not in defaults:
            whole = next((name for name in defaults if name.endswith(f".{key}")), key)
            raise UsageError(unknown(f"{key}: no such key", whole, defaults))
        values[key] = value
    return values


def folder(key: str, value: str | Path) -> Path:
    """A results folder. Raises UsageError where there is none."""
    if not Path(value).is_dir():
        raise UsageError(f"{key}={value}: no such folder; give a results folder, that of results_dir=...")
    return Path(value)


def chosen(key: str, value: str, names: Iterable[Name]) -> Name:
    """The one of the names that the value is. Raises UsageError where it is none of them."""
    there = {str(name): name for name in names}
    if value not in there:
        raise UsageError(unknown(f"{key}={value}: no such choice", value, there))
    return there[value]


def positive(key: str, value: str) -> float:
    """The value as a positive number. Raises UsageError."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise UsageError(f"{key}={value}: must be a positive number")
    return number


def built(kind: Callable[..., Part], request: Mapping[str, str], keys: Iterable[str], prefix: str = "") -> Part:
    """An object of a pydantic dataclass from the keys of a request that say something. Raises UsageError."""
    given = {key.removeprefix(prefix): request[key] for key in keys if request[key]}
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors()[0]
        key = "".join(f"{prefix}{name}={given[str(name)]}: " for name in first["loc"][:1])
        raise UsageError(f"{key}{first['msg']}") from error


def network(request: Mapping[str, str]) -> Network:
    """The network that the keys of NETWORK name. Raises UsageError."""
    from plots.runs.network import Network  # which imports pandas

    return built(Network, request, [key for key in request if key.startswith("network.")], "network.")
