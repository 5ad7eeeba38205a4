"""Files that out= names: what is written of runs follows from its ending."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import UsageError
from common.files import atomic
from common.names import unknown
from plots.request import folder, network
from plots.runs import find
from plots.runs.find import CHOOSING
from plots.runs.read import RunRecord

if TYPE_CHECKING:
    import pandas as pd

PICTURES = (".pdf", ".png", ".svg", ".jpg")

Write = Callable[[Mapping[str, str], Path], str]
"""Writes what a request asks for into a file; what to say of it."""

LOOKS = ["label", "color", "marker", "dash", "task_label", "selected_by"]
"""Columns that say how a curve is drawn and chosen."""


def write(request: Mapping[str, str], usual: Path, writes: Mapping[str, Write]) -> str:
    """Write the file that a request names, `usual` unless it does; what was written and where, in words.

    Raises UsageError for an ending that is none of `writes`.
    """
    target = Path(request["out"] or usual)
    ending = target.suffix.lower()
    if ending not in writes:
        raise UsageError(unknown(f"out={target}: no such kind of file", ending, writes))
    return f"{writes[ending](request, target)}: {target}"


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
    """The whole runs that a request chooses, finished or not.

    Raises UsageError for a folder and names that are not there, and ValueError where no whole run is left.
    """
    place = folder("results_dir", request["results_dir"])
    runs = find.chosen_runs(place, **{key: request[key] for key in CHOOSING})
    if not runs:
        raise ValueError(f"{place}: no whole runs there; python -m experiments.run results_dir={place} makes one")
    return runs


def write_page(request: Mapping[str, str], target: Path) -> str:
    """The runs that a request chooses as a page. Raises OSError where it cannot be written."""
    from plots.page.page import page, read_figures  # which takes a second to import

    place = folder("results_dir", request["results_dir"])
    runs = find.chosen_runs(place, **{key: request[key] for key in CHOOSING})
    made, figures = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), read_figures(place, target.parent)
    options = {"whole": request["points"] == "all", "study": request["study"], "network": network(request)}
    write_text(page(runs, figures, made, seen_from=target.parent, **options), target)
    return f"{len(runs)} run{'s' * (len(runs) != 1)}"


def write_rows(frame: pd.DataFrame, target: Path) -> None:
    """A table as CSV, without the columns that only drawing needs."""
    with atomic(target) as file:
        frame.drop(columns=LOOKS, errors="ignore").to_csv(file, index=False)


def write_text(text: str, target: Path) -> None:
    """A text, whole or not at all."""
    with atomic(target) as file:
        file.write_text(text)
