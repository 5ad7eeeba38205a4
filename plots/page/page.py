"""Runs and claims as one self-contained HTML page: no network, no server, no account."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.colors import is_color_like, to_hex, to_rgb
from plotly.offline import get_plotlyjs
from pydantic_core import to_json

from common.files import require_regular
from plots.runs.best import ends_above_its_start, mark_best, rule_in_words
from plots.runs.columns import AXES, column, in_words, usual_scale
from plots.runs.network import Network, modelled_seconds
from plots.runs.read import RunRecord
from plots.runs.results import bits_to_reach, usual_levels
from plots.runs.seeds import describe_axes
from plots.runs.variants import (
    DASHES,
    Variant,
    distinguish,
    facets,
    group_by,
    keep_ended,
    natural_key,
    report_mixed_code,
    variant_rows,
)

MOST = 1000
"""The most evaluations of a curve in a page. No screen has more places."""

_PARTS = Path(__file__).parent
STYLE = _PARTS / "page.css"
_SCRIPTS = ("data", "view", "panels", "tables", "page")  # in this order
_LINE = 2  # pixels

_Rows = Mapping[str, np.ndarray]
_Lists = dict[bytes, tuple[int, np.ndarray]]

_SYMBOLS = {
    "o": ("circle", "●"), "s": ("square", "■"), "D": ("diamond", "◆"), "^": ("triangle-up", "▲"),
    "v": ("triangle-down", "▼"), "<": ("triangle-left", "◀"), ">": ("triangle-right", "▶"), "X": ("x", "✖"),
    "x": ("x", "✖"), "P": ("cross", "✚"), "+": ("cross", "✚"), "p": ("pentagon", "⬟"), "h": ("hexagon", "⬢"),
    "H": ("hexagon", "⬢"), "*": ("star", "★"), "d": ("diamond-tall", "♦"),
}  # fmt: skip
"""plotly's names of matplotlib's markers, and their characters."""


def as_html(content: dict) -> str:
    """Return the page for the content of `page_data`."""
    data = to_json(content, inf_nan_mode="null", fallback=np.ndarray.tolist)  # JSON has no NaN
    parts = {
        "style": STYLE.read_text(),
        "plotly": get_plotlyjs(),
        "script": "\n".join((_PARTS / f"{name}.js").read_text() for name in _SCRIPTS),
        # Inside a script element only its end tag is special.
        "data": data.replace(b"<", rb"\u003c").decode(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], (_PARTS / "page.html").read_text())


def page_data(
    runs: Sequence[RunRecord],
    figures: Sequence[dict],
    made: str,
    study: str = "",
    seen_from: Path = Path(),
    network: Network = Network(),  # noqa: B008
) -> dict:
    """Return the page's content: runs, finished or not, and figures from `read_figures`, as plain values and arrays.

    Runs share the `lists` of their axes and refer to them by index. `made` is the time, and `study` names the page.
    Links lead from the folder `seen_from` to the runs' folders.
    """
    variants = distinguish(runs)
    shown = keep_ended(variants)
    report_mixed_code(shown)
    content = {"study": study, "made": made, "figures": list(figures)}
    if not shown:
        return content | {name: [] for name in ("runs", "methods", "curves", "settings")}
    frame = variant_rows(shown)
    frame = frame.assign(modelled_seconds=modelled_seconds(frame, network))
    metrics = {each.run.folder: [name for name in each.run.rows if column(name).is_measured] for each in shown}
    names = dict.fromkeys(name for own in metrics.values() for name in own)
    columns = {name: frame[name].to_numpy() for name in ("lr", *AXES, *names)}
    parts: dict = frame.groupby(["task", "algorithm", "run", "lr"]).indices
    settings, lists, every = facets(variant.run for variant in shown), _Lists(), []
    set_to: dict = settings.to_dict("index")
    for variant in shown:
        place, keys = variant.run.folder, [(variant.run.task, variant.name, variant.run.id, lr) for lr in variant.lrs]
        there = [(float(key[-1]), parts[key]) for key in keys if key in parts]
        trials = {lr: {name: values[places] for name, values in columns.items()} for lr, places in there}
        mine = {key: value for key, value in set_to[place].items() if value == value}  # a missing value is NaN
        about = {"settings": mine, "href": _href(place, seen_from)}
        every.append(_run(variant, trials, metrics[place], lists) | about)
    about_x = {**describe_axes(frame), "modelled_seconds": f"Modelled: {network.in_words()}."}
    return content | {
        "notices": _notices(variants, shown, len(runs), frame),
        "axes": {
            name: {"label": in_words(name), "log": usual_scale(name) == "log", "about": about_x.get(name, "")}
            for name in AXES
        },
        "metrics": {
            name: {"label": in_words(name), "log": usual_scale(name) == "log"}
            | {key: getattr(column(name), key) for key in ("unit", "better")}
            for name in names
        },
        "tasks": _tasks(frame, names),
        "methods": _methods(shown),
        "curves": _curves(shown),
        "settings": [
            {"key": key, "values": sorted(values.dropna().unique(), key=natural_key)}
            for key, values in settings.items()
        ],
        "lists": [values for _, values in lists.values()],
        "runs": every,
    }


def read_figures(results_dir: Path, seen_from: Path) -> list[dict]:
    """Read the figures with claims in a results folder, as plain values.

    These are name, href (a link to its report from a page in the folder `seen_from`), note (the mark of a reduced
    budget) and claims, the records of claims.csv. A damaged figure is left out with a notice on standard error.
    """
    figures = []
    for file in sorted(results_dir.glob("figures/*/claims.csv")):
        report = file.with_name("report.md")
        try:
            claims = pd.read_csv(require_regular(file), dtype=str, keep_default_na=False).to_dict("records")
            note = re.search(r"^\*\*(.+)\*\*$", require_regular(report).read_text(), re.MULTILINE)
        except (OSError, ValueError) as error:
            print(f"left out: {file}: damaged ({error}); delete it or make the figure again", file=sys.stderr)
            continue
        about = {"href": _href(report, seen_from), "note": note[1] if note else ""}
        figures.append({"name": file.parent.name, **about, "claims": claims})
    return figures


def thin_evaluations(length: int) -> np.ndarray:
    """Indices of at most MOST of `length` evaluations: the ends, and others evenly on a linear and a log axis.

    Seeds with equally many evaluations keep the same ones, so that they have a mean."""
    if length <= MOST:
        return np.arange(length)
    between = np.linspace(0, length - 1, MOST // 2), np.geomspace(1, length - 1, MOST // 2 - 1)
    return np.unique(np.concatenate([[0], *between]).round().astype(int))


def _notices(variants: Sequence[Variant], shown: Sequence[Variant], runs: int, frame: pd.DataFrame) -> list[str]:
    """Notices about unfinished, older and thinned runs."""
    shown_folders = {variant.run.folder for variant in shown}
    unfinished = [
        f"{run.task}, {run.algorithm}, seed {run.seed}: {run.state}, round {run.round} of {run.rounds}"
        f"{'' if run.folder in shown_folders else ', left out'}."
        for run in (variant.run for variant in variants)
        if not run.is_finished
    ]
    first = " ".join([*unfinished[:5], *["…"] * (len(unfinished) > 5)])
    counts = f"Runs that are not finished: {len(unfinished)}; left out: {len(variants) - len(shown)}."
    notices = [f"{counts} {first}"] if unfinished else []
    if older := runs - len(variants):
        notices.append(f"Older runs with the settings of later ones, left out: {older}.")
    if (frame.groupby(["task", "algorithm", "run", "lr"]).size() > MOST).any():
        notices.append(f"Lines are drawn through {MOST} evaluations at most. The table of bits counts all.")
    return notices


def _tasks(frame: pd.DataFrame, metrics: Iterable[str]) -> list[dict]:
    return [
        {
            "name": task,
            "label": rows["task_label"].iloc[0],
            "rule": rule_in_words(rows),
            "best": rows[rows["best"]].groupby("algorithm")["lr"].first().to_dict(),
            "targets": {name: _targets(rows, name) for name in metrics if rows[name].notna().any()},
        }
        for task, rows in mark_best(frame).groupby("task", sort=False)
    ]


def _targets(rows: pd.DataFrame, metric: str) -> dict:
    levels = usual_levels(rows, metric) if column(metric).better else []
    if not levels:
        return {"levels": [], "rows": {}}
    reached = bits_to_reach(rows, metric, levels)[["algorithm", "bits", "round", "lr"]].to_dict("records")
    return {"levels": levels, "rows": group_by(reached, lambda row: row.pop("algorithm"))}


def _methods(variants: Sequence[Variant]) -> list[dict]:
    """The look of each method, the same on every task and with all settings."""
    looks = {}
    for variant in variants:
        name, display = variant.run.algorithm, variant.run.display
        color = display["color"] if is_color_like(display["color"]) else "#777777"
        symbol, glyph = _SYMBOLS.get(display["marker"], _SYMBOLS["o"])
        red, green, blue = ((1 + part) / 2 for part in to_rgb(color))
        dark = to_hex((red, green, blue))  # half white, visible on a dark background
        look = {"label": variant.method, "color": to_hex(color), "dark": dark}
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
    return sorted(looks.values(), key=lambda look: (natural_key(look["label"].lower()), look["name"]))


def _href(place: Path, seen_from: Path) -> str:
    return quote(os.path.relpath(place, seen_from).replace(os.sep, "/"))


def _run(variant: Variant, trials: Mapping[float, _Rows], metrics: Iterable[str], lists: _Lists) -> dict:
    """A run's curves: the `axes`, and the metrics of each step size. New axes are added to `lists`."""
    run, metric, first = variant.run, variant.run.metric, next(iter(trials.values()))

    def shown(trial: _Rows, name: str) -> np.ndarray:
        return trial[name][thin_evaluations(len(trial[name]))]

    def place(values: np.ndarray) -> int:
        return lists.setdefault(values.astype(float).tobytes(), (len(lists), values))[0]

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
        "axes": {name: place(shown(first, name)) for name in AXES},
        "trials": [
            {"lr": lr, "above": bool(metric) and ends_above_its_start(trial, metric)}
            | {name: shown(trial, name) for name in metrics}
            for lr, trial in trials.items()
        ],
    }
