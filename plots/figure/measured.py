"""Measured rounds on the lines that are modelled of them."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from plots.figure import curves

_COLORS = ("#222222", "#D55E00", "#009E73", "#6A51A3", "#0072B2", "#A6611A", "#CC79A7")
"""One a method."""

_MARKERS = "osD^vPX"
"""One a form of it."""


def read(path: Path) -> pd.DataFrame:
    """The CSV of `benchmarks.network` as claims are judged by it: a task of every number of nodes and latency, an
    algorithm of every label and form, bandwidth in Mbit/s, and `seconds_of_round`, which was measured. `modelled` is
    missing where there is no model."""
    found = pd.read_csv(path).fillna({"form": ""}).sort_values(["nodes", "latency", "bandwidth"], kind="stable")
    names = found["label"].str.cat(found["form"], sep=", ").str.removesuffix(", ")
    tasks = [f"{nodes:g} nodes, {1e3 * seconds:g} ms" for nodes, seconds in found[["nodes", "latency"]].to_numpy()]
    found = found.assign(
        bandwidth=found["bandwidth"] / 1e6, seconds_of_round=found["seconds"], task=tasks, algorithm=names, seed=0
    )
    return found.assign(round=found.groupby(["task", "algorithm"]).cumcount())


def draw(rounds: pd.DataFrame, note: str) -> Picture:
    """A panel a number of nodes and latency, over bandwidth: lines are modelled, points were measured."""
    tasks, labels = list(rounds.groupby("task", sort=False)), list(rounds["label"].unique())
    with plt.style.context(str(curves.STYLE)):
        across = min(2, len(tasks))
        down = -(-len(tasks) // across)
        figure, axes = plt.subplots(down, across, sharey=True, squeeze=False, layout="constrained")
        figure.set_size_inches(6.6, 1.2 + 2.2 * down)
        for axis, (task, rows) in zip(axes.flat, tasks, strict=False):
            axis.set(title=task, xscale="log", yscale="log", xlabel="Mbit/s of every link")
            for name, some in rows.groupby("algorithm", sort=False):
                label = some["label"].iloc[0]
                color = _COLORS[labels.index(label) % len(_COLORS)]
                forms = list(rounds.loc[rounds["label"] == label, "algorithm"].unique())
                axis.plot(*_between(some), color=color)
                axis.plot(
                    some["bandwidth"], some["seconds_of_round"], color=color, label=name, linestyle="",
                    marker=_MARKERS[forms.index(name) % len(_MARKERS)], markersize=5,
                )  # fmt: skip
        for row in axes:
            row[0].set_ylabel("seconds a round")
        handles = axes[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper center", ncols=3)
        figure.supxlabel(note)
    return figure


def _between(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Bandwidths and modelled seconds: between those that were measured the model is linear in 1/bandwidth."""
    known = rows.dropna(subset="modelled").sort_values("bandwidth", ascending=False)
    if known.empty:
        return np.array([]), np.array([])
    places = np.geomspace(known["bandwidth"].min(), known["bandwidth"].max(), 61)
    return places, np.interp(1 / places, 1 / known["bandwidth"], known["modelled"])
