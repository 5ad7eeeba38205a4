"""Curves of several methods over bits or rounds, one column of panels a task."""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

STYLE = Path(__file__).with_name("style.mplstyle")

LABELS = {
    "bits": "communication bits",
    "round": "rounds",
    "grad_norm": r"gradient norm  $\|\nabla f(x)\|_2$",
    "train_loss": "training loss",
    "train_accuracy": "training accuracy",
    "aggregate_error": r"compression error  $\|\hat g - g\|_2$",
    "second_moment_ratio": r"$\sum \hat v$ over uncompressed",
    "min_grad_norm_squared": r"$\min_t\, \|\nabla f(x_t)\|_2^2$",
}
"""Axis labels by column of the results; a column that is not here is its own label."""


def draw(frame: pd.DataFrame, rows: list[dict], caption: str) -> Figure:
    """Panels of `rows` × tasks with one curve a method, and a caption in small print below.

    `frame` holds one trial per task and algorithm (columns of `plots.results.read`). Each of `rows` names the columns
    x and y and, optionally, `x_scale` (linear unless said), `y_scale` (log unless said), `y_min`, below which curves
    are cut, and `guide`, the slope of a dotted line. Round 0 has no place on a logarithmic axis of bits and is left
    out there. Close the figure after use.
    """
    tasks = list(dict.fromkeys(frame["task"]))
    with plt.style.context(STYLE):
        size = (max(6.6, 0.5 + 1.85 * len(tasks)), 0.65 + 1.6 * len(rows))
        figure, axes = plt.subplots(len(rows), len(tasks), figsize=size, squeeze=False, layout="constrained")
        for column, task in enumerate(tasks):
            here = frame[frame["task"] == task]
            axes[0][column].set_title(here["task_label"].iloc[0])
            for row, panel in enumerate(rows):
                _draw_panel(axes[row][column], here, panel)
        for row, panel in enumerate(rows):
            axes[row][0].set_ylabel(LABELS.get(panel["y"], panel["y"]))
        lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
        figure.supxlabel("\n".join(textwrap.fill(line, int(18 * size[0])) for line in caption.splitlines()))
        widest = 0.55 + 0.062 * max(map(len, lines))  # inches of a legend's entry, at its font size
        columns = max(1, min(len(lines), int(size[0] / widest)))
        figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=columns)
    return figure


def save(figure: Figure, target: Path) -> None:
    """Write a figure as <target>.pdf and <target>.png, and close it."""
    with plt.style.context(STYLE):
        for suffix in (".pdf", ".png"):
            figure.savefig(target.with_name(target.name + suffix))
    plt.close(figure)


def _draw_panel(axis: plt.Axes, frame: pd.DataFrame, panel: dict) -> None:
    x, y, x_scale = panel["x"], panel["y"], panel.get("x_scale", "linear")
    for _, curve in frame.groupby("algorithm", sort=False):
        curve = curve.sort_values("round")
        if x_scale == "log":
            curve = curve[curve[x] > 0]
        look = curve.iloc[0]
        marks = _spread(curve[x].to_numpy(dtype=float), x_scale)
        axis.plot(
            curve[x], curve[y], color=look["color"], marker=look["marker"], label=look["label"], markevery=marks
        )  # fmt: skip
    axis.set_xscale(x_scale)
    axis.set_yscale(panel.get("y_scale", "log"))
    axis.set_xlabel(LABELS.get(x, x))
    for side in (axis.xaxis, axis.yaxis):
        if side.get_scale() == "log":
            side.set_major_locator(LogLocator(numticks=6))
            side.set_minor_locator(NullLocator())
    if "guide" in panel:
        _draw_guide(axis, frame, panel)
    if "y_min" in panel:
        axis.set_ylim(bottom=max(panel["y_min"], axis.get_ylim()[0]))


def _draw_guide(axis: plt.Axes, frame: pd.DataFrame, panel: dict) -> None:
    """A dotted line of slope `guide` in log-log through the upper left of the curves."""
    x = np.array([frame[panel["x"]].min(), frame[panel["x"]].max()], dtype=float)
    y = frame.loc[frame[panel["x"]] == x[0], panel["y"]].max() * (x / x[0]) ** panel["guide"]
    axis.plot(x, y, color="#888888", linestyle=":", marker="", label=f"slope {panel['guide']:g}".replace("-", "−"))


def _spread(x: np.ndarray, scale: str, count: int = 7) -> list[int]:
    """Indices of about `count` points that lie evenly on an axis of this scale."""
    space = np.geomspace if scale == "log" else np.linspace
    return sorted(set(np.abs(x[:, None] - space(x[0], x[-1], count)).argmin(0).tolist()))
