"""Files that out= names: what is written of runs follows from its ending."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import UsageError
from common.files import atomic
from common.names import unknown
from plots.request import folder, network
from plots.runs.find import CHOOSING, find, select, whole, with_rows
from plots.runs.read import RunRecord

if TYPE_CHECKING:
    import pandas as pd

PICTURES = (".pdf", ".png", ".svg", ".jpg")


@dataclass(frozen=True)
class Written:
    """What a command writes into files of one ending.

    what: its name in messages. write: does so, given the request and the file, and gives what to say of it. takes:
    the keys that it goes by, besides those that choose runs. needs: a package that is no part of the harness.
    """

    what: str
    write: Callable[[Mapping[str, str], Path], str]
    takes: Collection[str] = ()
    needs: str = ""


def asked(
    request: Mapping[str, str], defaults: Mapping[str, str], writes: Mapping[str, Written], usual: Path
) -> tuple[Path, Written]:
    """The file that a request names, `usual` unless it does, and what is written there.

    Raises UsageError for an ending that is none of `writes`, for a package that is missing, and for a key that what
    is written does not go by.
    """
    target = Path(request["out"] or usual)
    ending = target.suffix.lower()
    if ending not in writes:
        raise UsageError(unknown(f"out={target}: out's type={ending[1:]}: no such choice", ending, writes))
    written = writes[ending]
    if written.needs and not find_spec(written.needs):
        raise UsageError(
            f"out={target}: the package {written.needs} is not installed; pip install {written.needs}, or write .csv"
        )
    for key in defaults:
        if request[key] != defaults[key] and key not in (*CHOOSING, "results_dir", "out", *written.takes):
            raise UsageError(f"{key}={request[key]}: {written.what} ({ending}) does not go by it; leave it out")
    return target, written


def named(stem: str, request: Mapping[str, str], defaults: Mapping[str, str], said: Collection[str] = ()) -> str:
    """A file's name without its ending: the stem and everything that was asked for, cut where that is too long.

    said: the keys that the stem tells already.
    """
    by_value = ("task", "algorithm", "seed")
    settings = [key for key in defaults if key not in (*by_value, "results_dir", "out", *said)]
    settings = [key for key in settings if request[key] != defaults[key]]
    parts = [stem, *(request[key] for key in by_value if request[key])]
    name = "-".join([*parts, *(f"{key}={request[key]}" for key in settings)]).replace("/", "_")
    if len(name.encode()) > 200:  # file systems take 255 bytes
        name = f"{name[:48]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return name


def chosen_runs(request: Mapping[str, str]) -> list[RunRecord]:
    """The runs that a request chooses, finished or not. Raises UsageError for names that none has."""
    place = folder("results_dir", request["results_dir"])
    return whole(select(with_rows(find(place)), place, **{key: request[key] for key in CHOOSING}))


def write_page(request: Mapping[str, str], target: Path) -> str:
    """The runs that a request chooses as a page. Raises OSError where it cannot be written."""
    from plots.page.page import page, read_figures  # which takes a second to import

    runs = chosen_runs(request)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    figures = read_figures(Path(request["results_dir"]), target.parent)
    options = {
        "whole": request.get("points") == "all",
        "study": request.get("study", ""),
        "network": network(request),
    }
    write_text(page(runs, figures, made, seen_from=target.parent, **options), target)
    return in_number(runs)


def in_number(runs: Collection[RunRecord]) -> str:
    """How many runs there are, in words."""
    return f"{len(runs)} run{'s' * (len(runs) != 1)}"


def write_rows(frame: pd.DataFrame, target: Path) -> None:
    """A table as CSV or, by the target's ending, Parquet; without the columns that only drawing needs."""
    kept = frame.drop(columns=[name for name in LOOKS if name in frame])
    with atomic(target) as file:
        if target.suffix.lower() == ".parquet":
            kept.apply(_of_one_type).to_parquet(file, index=False)
        else:
            kept.to_csv(file, index=False)


def _of_one_type(column: pd.Series) -> pd.Series:
    """A column as Parquet takes it: settings that are numbers in some runs and words in others become text."""
    return column.map(str, na_action="ignore") if column.dropna().map(type).nunique() > 1 else column


def write_text(text: str, target: Path) -> None:
    """A text, whole or not at all."""
    with atomic(target) as file:
        file.write_text(text)


LOOKS = ["label", "color", "marker", "dash", "task_label", "selected_by"]
"""Columns that say how a curve is drawn and chosen."""
