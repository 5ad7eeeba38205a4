"""Runs and claims as one HTML page that needs nothing else: no network, no server, no account."""

import json
import math
import os
import re
import sys
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.colors import is_color_like, to_hex, to_rgb
from plotly.offline import get_plotlyjs

from plots.runs.best import ends_above_its_start, mark_best, rule_in_words
from plots.runs.columns import ABOUT_BITS, axes, column, higher_is_better, in_words, usual_scale, x_axes
from plots.runs.levels import usual_levels
from plots.runs.network import Network, is_dense
from plots.runs.read import RunRecord, exchange
from plots.runs.seeds import identical_seeds
from plots.runs.variants import DASHES, Variant, by_value, distinguish, facets, grouped, latest, variant_rows

ROOM = 1_800_000
"""Values of curves in a page: 20 bytes each, which with all else makes less than 50 MB."""

MOST = 2000
"""Evaluations of a curve in a page: no screen has more places."""

_ABOUT = {
    **ABOUT_BITS,
    "seconds": "Seconds are those measured, for all workers and all step sizes of a run, evaluations left out.",
    "modelled_seconds": "Modelled seconds are explained at the foot of the page.",
}
"""What the page says of an axis."""

_PARTS = Path(__file__).parent
_SCRIPTS = ("data", "numbers", "view", "panels", "tables", "page")  # in this order
_LINE = 2  # pixels

_SYMBOLS = {
    "o": ("circle", "●"), "s": ("square", "■"), "D": ("diamond", "◆"), "^": ("triangle-up", "▲"),
    "v": ("triangle-down", "▼"), "<": ("triangle-left", "◀"), ">": ("triangle-right", "▶"), "X": ("x", "✖"),
    "x": ("x", "✖"), "P": ("cross", "✚"), "+": ("cross", "✚"), "p": ("pentagon", "⬟"), "h": ("hexagon", "⬢"),
    "H": ("hexagon", "⬢"), "*": ("star", "★"),
}  # fmt: skip
"""matplotlib's markers as plotly calls them, and as characters."""


def page(runs: Sequence[RunRecord], figures: Sequence[dict], made: str, **options: Any) -> str:
    """The page of `page_data` as HTML."""
    content = page_data(runs, figures, made, **options)
    parts = {
        "style": (_PARTS / "page.css").read_text(),
        "plotly": get_plotlyjs(),
        "script": "\n".join((_PARTS / f"{name}.js").read_text() for name in _SCRIPTS),
        # Within a script element nothing but its end is special.
        "data": json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], (_PARTS / "page.html").read_text())


def page_data(
    runs: Sequence[RunRecord],
    figures: Sequence[dict],
    made: str,
    whole: bool = False,
    study: str = "",
    seen_from: Path = Path(),
    network: Network = Network(),  # noqa: B008
) -> dict:
    """Everything that the page's scripts show of runs, finished or not, and of figures from `read_figures`, as plain
    JSON values. Runs share the `lists` of their axes and name them by their places.

    `made` says when. Evaluations that there is no room for are left out, unless the page is to be `whole`. It is
    named after the `study`, and links from the folder `seen_from` to those of its runs. Modelled seconds are those of
    `network` at first.
    """
    variants = distinguish(runs)
    shown = latest(variants)
    are_latest = {variant.run.folder for variant in shown}
    metrics = dict.fromkeys(name for variant in variants for name in measured_columns(variant.run))
    most = max(_evaluations(one.run) for one in variants) if whole and variants else evaluations_with_room(variants)
    lists: dict[tuple, int] = {}
    settings = facets([variant.run for variant in variants])
    values: dict[str, set[str]] = {}
    for key, value in (pair for some in settings.values() for pair in some.items()):
        values.setdefault(key, set()).add(value)
    every = []
    for one in variants:
        place = one.run.folder
        about = {"latest": place in are_latest, "settings": settings[place], "href": _href(place, seen_from)}
        every.append(_run(one, most, lists) | about)
    return {
        "study": study or _common_study(runs),
        "made": made,
        "older": len(runs) - len(variants),
        "identical": identical_seeds(variant_rows(shown)) if shown else [],
        "commits": Counter(run.commit for run in runs).most_common(),
        "network": asdict(network),
        "axes": {
            name: {"label": in_words(name), "log": usual_scale(name) == "log", "about": _ABOUT.get(name, "")}
            for name in x_axes()
        },
        "metrics": {name: {"label": in_words(name), "higher": higher_is_better(name)} for name in metrics},
        "tasks": _tasks(shown, metrics),
        "methods": _methods(variants),
        "curves": _curves(variants),
        "settings": [{"key": key, "values": sorted(some, key=by_value)} for key, some in values.items()],
        "lists": list(lists),
        "runs": every,
        "figures": list(figures),
    }


def read_figures(results_dir: Path, seen_from: Path) -> list[dict]:
    """The figures of a results folder that have claims, as plain values.

    These are name, href (its report as a link from a page in the folder `seen_from`), note (what marks a reduced
    budget) and claims, the records of claims.csv. One that is damaged is left out with a notice on standard error.
    """
    figures = []
    for file in sorted(results_dir.glob("figures/*/claims.csv")):
        try:
            claims = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict("records")
            text = report.read_text() if (report := file.with_name("report.md")).exists() else ""
        except (OSError, ValueError) as error:
            print(f"left out: {file}: damaged ({error}); delete it or make the figure again", file=sys.stderr)
            continue
        note = re.search(r"^\*\*(.+)\*\*$", text, re.MULTILINE)
        about = {"href": _href(report, seen_from), "note": note[1] if note else ""}
        figures.append({"name": file.parent.name, **about, "claims": claims})
    return figures


def measured_columns(run: RunRecord) -> list[str]:
    """The columns of a run that say something about the model."""
    return [name for name in run.columns if column(name).is_measured]


def evaluations_with_room(variants: Sequence[Variant]) -> int:
    """How many evaluations a curve can have at most, so that all of them fit into a page."""
    lengths = np.array([_evaluations(variant.run) for variant in variants])
    columns = np.array([1 + len(variant.lrs) * len(measured_columns(variant.run)) for variant in variants])
    longest = max(lengths, default=0)
    return min(MOST, bisect(range(longest + 1), ROOM, key=lambda most: np.minimum(lengths, most) @ columns) - 1)


def kept_evaluations(length: int, most: int) -> np.ndarray:
    """The places of up to `most` of `length` evaluations: the ends, and others evenly on a linear and a logarithmic
    axis. Seeds with equally many keep the same ones, so that there is a mean over them."""
    if length <= max(2, most):
        return np.arange(length)
    half = max(0, most // 2 - 1)
    between = np.linspace(0, length - 1, half), np.geomspace(1, length - 1, half)
    return np.unique(np.concatenate([[0, length - 1], *between]).round().astype(int))


def _evaluations(run: RunRecord) -> int:
    return -(-len(run.rows) // len(run.lrs))


def _tasks(variants: Sequence[Variant], metrics: Iterable[str]) -> list[dict]:
    """Tasks, with which step size each method is best on them if any is, by which rule, and the usual levels of
    metrics."""
    tasks = []
    for task, of_task in grouped(variants, lambda variant: variant.run.task).items():
        rows = mark_best(variant_rows(of_task))
        best = rows[rows["best"]].groupby("algorithm")["lr"].first().to_dict()
        levels = {name: usual_levels(rows, name) for name in metrics if name in rows}
        label = rows["task_label"].iloc[0]
        tasks.append({"name": task, "label": label, "rule": rule_in_words(rows), "best": best, "levels": levels})
    return tasks


def _methods(variants: Sequence[Variant]) -> list[dict]:
    """How each method is drawn, on every task and with all settings alike."""
    looks = {}
    for variant in variants:
        name, display = variant.run.algorithm, variant.run.display
        color = display["color"] if is_color_like(display["color"]) else "#777777"
        symbol, glyph = _SYMBOLS.get(display["marker"], _SYMBOLS["o"])
        red, green, blue = ((1 + part) / 2 for part in to_rgb(color))
        dark = to_hex((red, green, blue))  # half white, to be seen on a dark ground
        look = {"label": display["label"], "color": to_hex(color), "dark": dark}
        looks.setdefault(name, {"name": name, **look, "symbol": symbol, "glyph": glyph})
    return sorted(looks.values(), key=lambda look: (look["label"].lower(), look["name"]))


def _curves(variants: Sequence[Variant]) -> list[dict]:
    """The variants of methods, each with the dash that distinguishes it from the others of its method."""
    looks = {
        variant.name: {
            "name": variant.name,
            "method": variant.run.algorithm,
            "label": variant.label,
            "dash": ",".join(f"{_LINE * length:g}px" for length in DASHES[variant.dash]) or "solid",
        }
        for variant in variants
    }
    return sorted(looks.values(), key=lambda look: (by_value(look["label"].lower()), look["name"]))


def _common_study(runs: Sequence[RunRecord]) -> str:
    """The study that all runs were made for; empty where there is no such one."""
    [study, *others] = {run.study for run in runs} or {None}
    return study if study and not others else ""


def _href(place: Path, seen_from: Path) -> str:
    """A link from a page in the folder `seen_from`."""
    return quote(os.path.relpath(place, seen_from).replace(os.sep, "/"))


def _run(variant: Variant, most: int, lists: dict[tuple, int]) -> dict:
    """A run's curves: `axes` of all, and one trial of metrics for each step size that it stands for.

    most: how many evaluations are shown. lists: takes those of axes that are new.
    """
    run, count, metrics = variant.run, len(variant.run.lrs), measured_columns(variant.run)

    def trial(number: int) -> dict[str, np.ndarray]:
        return {name: values[number::count] for name, values in run.numbers.items()}  # a row a trial, in turn

    def shown(values: np.ndarray) -> list[float | int | None]:
        kept = values[kept_evaluations(len(values), most)].tolist()
        return [value if math.isfinite(value) else None for value in kept]  # JSON knows no others

    trials = sorted([(lr, number) for number, lr in enumerate(run.lrs) if lr in variant.lrs])
    first = trial(trials[0][1])
    return {
        "task": run.task,
        "method": run.algorithm,
        "curve": variant.name,
        "seed": run.seed,
        "folder": run.id,
        "status": run.state,
        "rounds": run.rounds,
        "commit": run.commit,
        "workers": run.workers,
        "ranks": run.environment.get("ranks", 1),
        **exchange(run.environment),
        "grid": len(set(run.numbers["trial"])),
        "uncompressed": bool(np.all(is_dense(first["bits"], first["round"], run.environment.get("d", math.nan)))),
        "evaluations": len(first["round"]),
        "axes": {name: lists.setdefault(tuple(shown(first[name])), len(lists)) for name in axes()},
        "trials": [
            {"lr": lr, "above": bool(run.metric) and ends_above_its_start(trial(number), run.metric)}
            | {name: shown(trial(number)[name]) for name in metrics}
            for lr, number in trials
        ],
    }
