"""Runs and claims as one HTML page that needs nothing else: no network, no server, no account."""

import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
from plotly.offline import get_plotlyjs

from plots.page.looks import curves, methods, ordered
from plots.page.thin import kept, measured
from plots.runs.best import ends_above_its_start, mark_best, rule_in_words
from plots.runs.columns import axes, higher_is_better, in_words, x_axes
from plots.runs.network import Network, is_dense
from plots.runs.read import RunRecord, exchange
from plots.runs.variants import Variant, facets, grouped, settled, table, tell_apart

_PARTS = Path(__file__).parent

_SCRIPTS = (
    "base", "look", "network", "curves", "choice", "form", "address", "traces", "panels", "csv", "tables", "runs",
    "finding", "page",
)  # fmt: skip
"""In this order."""


def page(
    runs: Sequence[RunRecord],
    figures: Sequence[dict],
    made: str,
    whole: bool = False,
    study: str = "",
    seen_from: Path = Path(),
    network: Network = Network(),  # noqa: B008  (it is frozen)
) -> str:
    """The page of the given runs, finished or not, and of figures as `read_figures` has them; `made` says when.

    Where there is no room for all evaluations it has fewer and says so, unless it is to be `whole`. It is named after
    the `study` where one was asked for, and links from the folder `seen_from` to those of its runs. Modelled seconds
    are of `network` at first.
    """
    parts = {
        "style": (_PARTS / "page.css").read_text(),
        "plotly": get_plotlyjs(),
        "script": "\n".join((_PARTS / f"{name}.js").read_text() for name in _SCRIPTS),
        # Within a script element nothing but its end is special.
        "data": json.dumps(
            content(runs, figures, made, whole, study, seen_from, network), allow_nan=False, separators=(",", ":")
        ).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], (_PARTS / "page.html").read_text())


def content(
    runs: Sequence[RunRecord],
    figures: Sequence[dict],
    made: str,
    whole: bool = False,
    study: str = "",
    seen_from: Path = Path(),
    network: Network = Network(),  # noqa: B008
) -> dict:
    """Everything that the page's scripts show, as plain JSON values. `lists` are those of axes, which runs share and
    name by their places there."""
    variants = tell_apart(runs)
    shown = settled(variants)
    are_settled = {variant.run.folder for variant in shown}
    metrics = dict.fromkeys(name for variant in variants for name in measured(variant.run))
    places = {} if whole else kept(variants)
    lists: dict[tuple, int] = {}
    values = facets([variant.run for variant in variants])
    every = [
        _run(one, one.run.folder in are_settled, places.get(one.run.folder), lists)
        | {"settings": values[one.run.folder], "href": _href(one.run.folder, seen_from)}
        for one in variants
    ]
    return {
        "study": study or _common_study(runs),
        "made": made,
        "older": len(runs) - len(variants),
        "commits": [
            {"commit": code, "runs": count} for code, count in Counter(run.commit for run in runs).most_common()
        ],
        "network": asdict(network),
        "axes": {name: in_words(name) for name in x_axes()},
        "metrics": {name: {"label": in_words(name), "higher": higher_is_better(name)} for name in metrics},
        "tasks": _tasks(shown),
        "methods": methods(variants),
        "curves": curves(variants),
        "settings": [{"key": key, "values": some} for key, some in ordered(values.values()).items()],
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
        figures.append(
            {
                "name": file.parent.name,
                "href": _href(report, seen_from),
                "note": note[1] if note else "",
                "claims": claims,
            }
        )
    return figures


def _tasks(variants: Sequence[Variant]) -> list[dict]:
    """Tasks, with which step size each method is best on them if any is, and by which rule."""
    tasks = []
    for task, of_task in grouped(variants, lambda variant: variant.run.task).items():
        rows = mark_best(table(of_task))
        best = rows[rows["best"]].groupby("algorithm")["lr"].first().to_dict()
        tasks.append({"name": task, "label": rows["task_label"].iloc[0], "rule": rule_in_words(rows), "best": best})
    return tasks


def _common_study(runs: Sequence[RunRecord]) -> str:
    """The study that all runs were made for; empty where there is no such one."""
    [study, *others] = {run.study for run in runs} or {None}
    return study if study and not others else ""


def _href(place: Path, seen_from: Path) -> str:
    """A link from a page in the folder `seen_from`."""
    return quote(os.path.relpath(place, seen_from).replace(os.sep, "/"))


def _run(variant: Variant, is_settled: bool, places: np.ndarray | None, lists: dict[tuple, int]) -> dict:
    """A run's curves: `axes` of all, and one trial of metrics for each step size that it stands for.

    places: of the evaluations that are shown, all of them for None. lists: takes those of axes that are new.
    """
    run, count, metrics = variant.run, len(variant.run.lrs), measured(variant.run)

    def trial(number: int) -> dict[str, np.ndarray]:
        return {name: values[number::count] for name, values in run.numbers.items()}  # a row a trial, in turn

    def shown(values: np.ndarray) -> list[float | int | None]:
        return _values(values if places is None else values[places[places < len(values)]])

    trials = [
        (lr, trial(number)) for lr, number in sorted(zip(run.lrs, range(count), strict=True)) if lr in variant.lrs
    ]
    first = trials[0][1]
    return {
        "task": run.task,
        "method": run.algorithm,
        "curve": variant.name,
        "seed": run.seed,
        "folder": run.id,
        "settled": is_settled,
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
            {
                "lr": lr,
                "above": bool(run.metric) and ends_above_its_start(part, run.metric),
                **{name: shown(part[name]) for name in metrics},
            }
            for lr, part in trials
        ],
    }


def _values(values: np.ndarray) -> list[float | int | None]:
    """JSON's values; what is missing or not finite is null."""
    return [value if math.isfinite(value) else None for value in values.tolist()]
