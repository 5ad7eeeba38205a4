"""Command lines of key=value for what looks at results, and the files that they write."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from common.errors import RunError, UsageError, exit_with_message
from common.files import atomic_write
from common.names import explain_unknown
from common.tables import write_csv
from plots.runs import find
from plots.runs.find import CHOOSING
from plots.runs.read import RunRecord

if TYPE_CHECKING:
    import pandas as pd

    from plots.runs.network import Network

Name = TypeVar("Name", bound=str)

NETWORK = {
    "network.bandwidth": "100", "network.latency": "1", "network.topology": "sharded", "network.overlap": "false",
    "network.computing": "", "network.workers": "", "network.inside_bandwidth": "", "network.inside_latency": "",
}  # fmt: skip
"""The keys of a network, and what they are unless said."""

PICTURES = (".pdf", ".png", ".svg", ".jpg")

Write = Callable[[Mapping[str, str], Path], str]
"""Writes what a request asks for into a file; what to say of it."""

_LOOKS = ["label", "color", "marker", "dash", "task_label", "selected_by"]
"""Columns that say how a curve is drawn and chosen."""


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


@contextmanager
def asked(
    program: str, about: str | None, arguments: Sequence[str] | None, defaults: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """The request of a command line of key=value, which is answered within."""
    given = words(program, about, arguments)
    with answering():
        yield parse(given, defaults)


def parse(arguments: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults with what the arguments say. Raises UsageError for an argument of another form or key."""
    values = dict(defaults)
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise UsageError(f"{text}: not of the form key=value; keys: {', '.join(defaults)}")
        if key not in defaults:
            whole = next((name for name in defaults if name.endswith(f".{key}")), key)
            raise UsageError(explain_unknown(f"{key}: no such key", whole, defaults))
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
        raise UsageError(explain_unknown(f"{key}={value}: no such choice", value, there))
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


def network(request: Mapping[str, str], prefix: str = "network.") -> Network:
    """The network that the keys with this prefix describe. Raises UsageError."""
    from plots.runs.network import Network  # which imports pandas

    given = {key.removeprefix(prefix): text for key, text in request.items() if key.startswith(prefix) and text}
    try:
        return Network(**given)  # type: ignore[arg-type]  (pydantic reads texts)
    except ValidationError as error:
        first = error.errors()[0]
        key = "".join(f"{prefix}{name}={given[str(name)]}: " for name in first["loc"][:1])
        raise UsageError(f"{key}{first['msg']}") from error


def chosen_runs(request: Mapping[str, str]) -> list[RunRecord]:
    """The whole runs that a request chooses, finished or not.

    Raises UsageError for a folder and names that are not there, and ValueError where no whole run is left.
    """
    place = folder("results_dir", request["results_dir"])
    runs = find.chosen_runs(place, **{key: request[key] for key in CHOOSING})
    if not runs:
        raise ValueError(f"{place}: no whole runs there; python -m experiments.run results_dir={place} makes one")
    return runs


def write(request: Mapping[str, str], usual: Path, writes: Mapping[str, Write]) -> str:
    """Write the file that a request names, `usual` unless it does; what was written and where, in words.

    What is written follows from the file's ending. Raises UsageError for one that is none of `writes`, and if
    `usual`, its folder or the rows beside it are a link: one in somebody else's results may lead anywhere.
    """
    for place in (usual, usual.parent, usual.with_suffix(".csv")) if not request["out"] else ():
        if place.is_symlink() and place != Path(request["results_dir"]):
            raise UsageError(f"{place}: is a link, and nothing is written through links; remove it, or give out=")
    target = Path(request["out"] or usual)
    return f"{writes[chosen('out', target.suffix, writes)](request, target)}: {target}"


def write_rows(frame: pd.DataFrame, target: Path) -> None:
    """A table as CSV, without the columns that only drawing needs."""
    with atomic_write(target) as file:
        write_csv(frame.drop(columns=_LOOKS, errors="ignore"), file)
