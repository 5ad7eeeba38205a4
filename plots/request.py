"""Command lines of key=value for commands that read results, and their output files."""

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
from plots.runs.variants import Variant, distinguish, keep_ended, report_mixed_code

if TYPE_CHECKING:
    import pandas as pd

    from plots.runs.network import Network

Name = TypeVar("Name", bound=str)

NETWORK = {
    "network.bandwidth": "100", "network.latency": "1", "network.topology": "sharded", "network.overlap": "false",
    "network.computing": "", "network.workers": "", "network.inside_bandwidth": "", "network.inside_latency": "",
}  # fmt: skip
"""The keys of a network with their defaults."""

PICTURES = (".pdf", ".png", ".svg", ".jpg")

Write = Callable[[Mapping[str, str], Path], str]
"""Writes a request's output into a file. Returns a word for it, such as picture."""

_LOOKS = ["label", "color", "marker", "dash", "left_out", "task_label", "selected_by", "stopped"]
"""Columns for drawing and choosing curves."""


def parse_words(
    program: str, about: str | None, arguments: Sequence[str] | None, metavar: str = "key=value"
) -> list[str]:
    """Return the words of a command line. With --help, print `about` and exit."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar=metavar)
    return parser.parse_args(arguments).words


@contextmanager
def report_errors() -> Iterator[None]:
    """Like `exit_with_message`. A ValueError (damaged or mismatched files) also exits, with status 1."""
    with exit_with_message():
        try:
            yield
        except ValueError as error:
            raise RunError(str(error)) from error


@contextmanager
def open_request(
    program: str, about: str | None, arguments: Sequence[str] | None, defaults: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Parse a command line of key=value. Errors within the with-block are reported."""
    given = parse_words(program, about, arguments)
    with report_errors():
        yield parse(given, defaults)


def parse(arguments: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults updated by the arguments. Raises UsageError for another form or an unknown key."""
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


def require_folder(key: str, value: str | Path) -> Path:
    if not Path(value).is_dir():
        raise UsageError(f"{key}={value}: no such folder; give a results folder")
    return Path(value)


def require_choice(key: str, value: str, names: Iterable[Name]) -> Name:
    """Return the value if it is one of `names`. Raises UsageError otherwise."""
    known = {str(name): name for name in names}
    if value not in known:
        raise UsageError(explain_unknown(f"{key}={value}: no such choice", value, known))
    return known[value]


def parse_positive(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise UsageError(f"{key}={value}: must be a positive number")
    return number


def parse_network(request: Mapping[str, str], prefix: str = "network.") -> Network:
    """Build the network from the keys with this prefix. Raises UsageError."""
    from plots.runs.network import Network  # which imports pandas

    given = {key.removeprefix(prefix): text for key, text in request.items() if key.startswith(prefix) and text}
    try:
        return Network(**given)  # type: ignore[arg-type]  (pydantic reads texts)
    except ValidationError as error:
        first = error.errors()[0]
        key = "".join(f"{prefix}{name}={given[str(name)]}: " for name in first["loc"][:1])
        raise UsageError(f"{key}{first['msg']}") from error


def choose_runs(request: Mapping[str, str]) -> list[RunRecord]:
    """Return the undamaged runs that a request chooses, finished or not.

    Raises UsageError for an unknown folder or name, and ValueError if no run is left.
    """
    place = require_folder("results_dir", request["results_dir"])
    runs = find.choose_runs(place, **{key: request[key] for key in CHOOSING})
    if not runs:
        raise ValueError(f"{place}: no complete runs; start one by python -m experiments.run results_dir={place}")
    return runs


def choose_variants(request: Mapping[str, str]) -> list[Variant]:
    """Return the variants that `keep_ended` selects of a request's runs. Prints which runs are unfinished.

    Raises as `choose_runs`.
    """
    every = distinguish(choose_runs(request))
    variants = keep_ended(every)
    report_mixed_code(variants)
    shown = {variant.run.folder for variant in variants}
    for variant, run in ((variant, variant.run) for variant in every if not variant.run.is_finished):
        what = "used up to there" if run.folder in shown else "left out"
        who = f"{variant.label} on {run.task}, seed {run.seed}, lr={','.join(f'{lr:g}' for lr in variant.lrs)}"
        print(f"{who}, is not finished (round {run.round} of {run.rounds}): {what}")
    return variants


def write(request: Mapping[str, str], usual: Path, writes: Mapping[str, Write]) -> str:
    """Write the output file that a request names, else `usual`. Returns what was written and where, in words.

    The suffix decides the format. Raises UsageError for a suffix not in `writes`, and if `usual`, its folder or the
    rows beside it are a link: in somebody else's results a link may lead anywhere.
    """
    for place in (usual, usual.parent, usual.with_suffix(".csv")) if not request["out"] else ():
        if place.is_symlink() and place != Path(request["results_dir"]):
            raise UsageError(f"{place}: is a link, and nothing is written through links; remove it, or give out=")
    target = Path(request["out"] or usual)
    return f"{writes[require_choice('out', target.suffix, writes)](request, target)}: {target}"


def write_rows(frame: pd.DataFrame, target: Path) -> None:
    """Write a table as CSV, without the columns that only drawing needs."""
    with atomic_write(target) as file:
        write_csv(frame.drop(columns=_LOOKS, errors="ignore"), file)
