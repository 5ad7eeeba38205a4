"""Measured rounds on the lines that are modelled of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from plots.figure import curves
from plots.figure.look import MOST, Look
from plots.figure.spec import Panel

ROOT = Path(__file__).resolve().parents[2]

COLUMNS = ("label", "form", "nodes", "bandwidth", "latency", "seconds", "modelled")
"""Of a file of measured rounds: bandwidth in bit/s, latency in seconds one way, and seconds of a round, measured and
modelled; the last is missing where there is no model."""

PANEL = Panel(x="bandwidth", y="modelled", x_scale="log")

_COLORS = ("#6A51A3", "#1B7837", "#A6611A", "#B2182B", "#2166AC")
"""Of what is measured alone."""

_MARKERS = "osD^vPX"


def read(path: Path, colors: Mapping[str, str] = MappingProxyType({})) -> pd.DataFrame:
    """Measured rounds as `plots.figure.curves.draw` takes them: a task of every number of nodes and latency, an
    algorithm of every label and form; bandwidth in Mbit/s, and `seconds_of_round`, which was measured. `colors` are
    those that methods have elsewhere, by label, or by what their label begins with.

    Raises ValueError, naming the file, where columns or numbers are missing.
    """
    try:
        found = pd.read_csv(path, dtype={"label": str, "form": str}, keep_default_na=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no table of measured rounds ({error}); measure them again") from error
    missing = [name for name in COLUMNS if name not in found]
    if missing or found.empty:
        raise ValueError(f"{path}: {f'no column {missing[0]}' if missing else 'no rows'}; measure them again")
    numbers = found[["nodes", "bandwidth", "latency", "seconds"]].apply(pd.to_numeric, errors="coerce")
    if not (np.isfinite(numbers).all(axis=None) and (numbers > 0).all(axis=None)) or found["label"].isna().any():
        raise ValueError(
            f"{path}: a label that is missing, or nodes, bandwidth, latency or seconds that are not positive; "
            "measure them again"
        )
    found = found.sort_values(["nodes", "latency", "bandwidth"], kind="stable").fillna({"form": ""})
    names = [", ".join(filter(None, pair)) for pair in zip(found["label"], found["form"], strict=True)]
    methods = np.array([_method(name) for name in names])
    known = {method: next((colors[label] for label in colors if _begins(method, label)), None) for method in methods}
    spare = cycle(_COLORS)
    shades = {method: color or next(spare) for method, color in known.items()}
    forms = pd.Series(names).groupby(methods).transform(lambda some: pd.factorize(some)[0])
    tasks = [
        f"{nodes} nodes, {1e3 * latency:g} ms"
        for nodes, latency in zip(found["nodes"], found["latency"], strict=True)
    ]
    return found.assign(
        bandwidth=found["bandwidth"] / 1e6, seconds_of_round=found["seconds"], task=tasks, task_label=tasks,
        algorithm=names, label=names, color=[shades[method] for method in methods],
        marker=[_MARKERS[number % len(_MARKERS)] for number in forms],
        dash=[number % len(curves.DASHES) for number in forms], seed=0,
    ).assign(round=lambda rows: rows.groupby(["task", "algorithm"]).cumcount())  # fmt: skip


def draw(rounds: pd.DataFrame, note: str, look: Look) -> Picture:
    """A panel a number of nodes and latency, over bandwidth: lines are modelled, points were measured."""
    figure = curves.draw(_between(rounds), [PANEL], note, look, _families(rounds))
    seen = rounds[["seconds_of_round", "modelled"]]
    low, high = np.nanmin(seen.to_numpy()), np.nanmax(seen.to_numpy())
    for axis in figure.axes:
        of_panel = rounds[rounds["task"] == axis.get_label()]
        for line in axis.get_lines():
            line.set_marker("")
            points = of_panel[of_panel["label"] == " ".join(str(line.get_label()).split())]
            axis.plot(
                points["bandwidth"], points["seconds_of_round"], color=line.get_color(), linestyle="",
                marker=points["marker"].iloc[0] if len(points) else "", markersize=5,
            )  # fmt: skip
        axis.set_ylim(low / 1.3, high * 1.3)
        curves.set_log_ticks(axis.yaxis)
        if axis.get_ylabel():
            axis.set_ylabel("seconds a round")
    return figure


def _method(name: str) -> str:
    """What a name begins with: a method has one colour, whatever its form."""
    return name.partition(",")[0]


def _begins(method: str, label: str) -> bool:
    """Whether they are one method, of which a label may say more: EF21 top-1 % and EF21, both ways."""
    return method.split()[0] == label.partition(",")[0]


def _families(rounds: pd.DataFrame) -> list[list[str]]:
    """The names, method by method, in as many blocks of panels as their number takes."""
    families: list[list[str]] = []
    for _, some in rounds.groupby(rounds["algorithm"].map(_method), sort=False):
        names = some["algorithm"].unique().tolist()
        if families and len(families[-1]) + len(names) <= MOST:
            families[-1] += names
        else:
            families += [names[begin : begin + MOST] for begin in range(0, len(names), MOST)]
    return families


def _between(rounds: pd.DataFrame) -> pd.DataFrame:
    """The modelled lines: between bandwidths that were measured the model is linear in 1/bandwidth."""
    parts = []
    for _, rows in rounds.groupby(["task", "algorithm"], sort=False):
        known = rows.dropna(subset="modelled").drop_duplicates("bandwidth")
        ends = (known if len(known) else rows)["bandwidth"]
        places, modelled = np.geomspace(ends.min(), ends.max(), 61), np.nan
        if len(known):
            known = known.sort_values("bandwidth", ascending=False)
            modelled = np.interp(1 / places, 1 / known["bandwidth"], known["modelled"])
        looks = rows.iloc[[0]][["task", "task_label", "algorithm", "label", "color", "marker", "dash", "seed"]]
        whole = pd.concat([looks] * len(places), ignore_index=True)
        parts.append(whole.assign(bandwidth=places, modelled=modelled, round=range(len(places))))
    return pd.concat(parts, ignore_index=True)
