"""Curves of several methods over bits, rounds or epochs."""

import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from common.characters import visible
from common.files import naming
from plots.figure.spec import Panel
from plots.runs.columns import label
from plots.runs.seeds import over_seeds
from plots.runs.variants import DASHES

STYLE = Path(__file__).with_name("style.mplstyle")

WIDEST = 4
"""Panels beside each other where there is one task, or one panel of each."""


def draw(frame: pd.DataFrame, rows: Sequence[Panel], caption: str) -> Figure:
    """Panels of `rows` × tasks with one curve a method, and a caption in small print below.

    Where there is only one task its panels stand beside each other, with its name above the legend, and so do the
    tasks of a single panel, up to four to a row. `frame` holds one trial per task, algorithm and seed (columns of
    `Run.frame`, or of `Variant.frame`). Of several
    seeds the curve is the mean, geometric on a logarithmic axis, in a band from the least to the greatest.
    Round 0 has no place on a logarithmic axis of bits and is left out there. Close the figure after use.
    """
    tasks = {str(task): rows for task, rows in frame.groupby("task", sort=False)}
    places = _places(list(tasks), rows)
    with plt.style.context(STYLE):
        width = max(6.6, 0.5 + 1.85 * len(places[0]))
        text = "\n".join(textwrap.fill(line, int(18 * width)) for line in caption.splitlines())
        height = 0.65 + 1.6 * len(places)
        if len(tasks) == 1:  # every panel has a y label of its own to hold, and the legend a title
            height = 0.7 + 1.8 * len(places) + 0.12 * len(text.splitlines())
        figure, axes = plt.subplots(
            len(places), len(places[0]), figsize=(width, height), squeeze=False, layout="constrained"
        )
        for row, cells in enumerate(places):
            for column, (task, panel) in enumerate(cells):
                axis = axes[row][column]
                _draw_panel(axis, tasks[task], panel)
                if len(tasks) == 1 or column == 0:
                    axis.set_ylabel(drawable(label(panel.y)))
                if len(tasks) > 1 and (row == 0 or len(rows) == 1):
                    axis.set_title(drawable(tasks[task]["task_label"].iloc[0]))
                if len(rows) == 1 and column < len((*places, ())[row + 1]):
                    axis.set_xlabel("")  # the same stands below
            for axis in axes[row][len(cells) :]:
                axis.remove()
        lines = {str(line.get_label()): line for axis in figure.axes for line in axis.get_lines()}
        figure.supxlabel(drawable(text))
        widest = 0.55 + 0.062 * max(map(len, lines))  # inches of a legend's entry, at its font size
        columns = max(1, min(len(lines), int(width / widest)))
        beyond = math.ceil(len(lines) / columns) - 4  # rows of the legend for which there would be no room
        figure.set_size_inches(width, height + 0.16 * max(0, beyond))
        title = drawable(frame["task_label"].iloc[0]) if len(tasks) == 1 else None
        figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=columns, title=title)
    return figure


def save(figure: Figure, *targets: Path) -> None:
    """Write a figure to files, each of the type that its name ends in, and close it."""
    with plt.style.context(STYLE):
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming(target):
                figure.savefig(target)
    plt.close(figure)


def drawable(text: str) -> str:
    """A text as matplotlib draws it: a formula between dollars that does not parse is drawn as it is written."""
    lines = [visible(line) for line in text.split("\n")]
    return "\n".join(line if _parses(line) else re.sub(r"(?<!\\)\$", r"\$", line) for line in lines)


def _parses(line: str) -> bool:
    try:
        if is_math_text(line):
            MathTextParser("path").parse(line)
    except ValueError:
        return False
    return True


def _places(tasks: list[str], panels: Sequence[Panel]) -> list[list[tuple[str, Panel]]]:
    """Which task and panel lies where, row by row."""
    if len(tasks) > 1 and len(panels) > 1:
        return [[(task, panel) for task in tasks] for panel in panels]
    cells = [(task, panel) for task in tasks for panel in panels]
    rows = math.ceil(len(cells) / WIDEST)
    across = math.ceil(len(cells) / rows)
    return [cells[begin : begin + across] for begin in range(0, len(cells), across)]


def _draw_panel(axis: Axes, frame: pd.DataFrame, panel: Panel) -> None:
    for _, curve in frame.groupby("algorithm", sort=False):
        line = over_seeds(curve, panel.x, panel.y, geometric=panel.y_scale == "log")
        if panel.x_scale == "log":
            line = line[line["x"] > 0]
        look = curve.iloc[0]
        marks = _spread(line["x"].to_numpy(dtype=float), panel.x_scale)
        axis.plot(
            line["x"], line["mean"], color=look["color"], marker=look["marker"], label=drawable(look["label"]),
            markevery=marks, linestyle=(0, DASHES[look.get("dash", 0)]),
        )  # fmt: skip
        if curve["seed"].nunique() > 1:
            axis.fill_between(line["x"], line["low"], line["high"], color=look["color"], alpha=0.2, linewidth=0)
    axis.set_xscale(panel.x_scale)
    axis.set_yscale(panel.y_scale)
    axis.set_xlabel(drawable(label(panel.x)))
    if panel.guide is not None:
        _draw_guide(axis, frame, panel.x, panel.y, panel.guide)
    if panel.y_min is not None:
        axis.set_ylim(bottom=max(panel.y_min, axis.get_ylim()[0]))
    if panel.y_max is not None:
        axis.set_ylim(top=min(panel.y_max, axis.get_ylim()[1]))
    for side in (axis.xaxis, axis.yaxis):
        if side.get_scale() == "log":
            _set_log_ticks(side)


def _draw_guide(axis: Axes, frame: pd.DataFrame, x: str, y: str, slope: float) -> None:
    """A dotted line of this slope in log-log through the upper left of the curves."""
    ends = np.array([frame[x].min(), frame[x].max()], dtype=float)
    heights = frame.loc[frame[x] == ends[0], y].max() * (ends / ends[0]) ** slope
    axis.plot(ends, heights, color="#888888", linestyle=":", marker="", label=f"slope {slope:g}".replace("-", "−"))


def _spread(x: np.ndarray, scale: str, count: int = 7) -> list[int]:
    """Indices of about `count` points that lie evenly on an axis of this scale."""
    space = np.geomspace if scale == "log" else np.linspace
    return sorted(set(np.abs(x[:, None] - space(x[0], x[-1], count)).argmin(0).tolist()))


def _set_log_ticks(side: Axis) -> None:
    """About six labelled ticks at most, at decades; where fewer than two of these are in view, at 1, 2 and 5 times
    them, and on a still shorter axis at evenly spaced round numbers."""
    side.set_minor_locator(NullLocator())
    low, high = sorted(side.get_view_interval())
    if _in_view(low, high, (1,)) >= 2:
        side.set_major_locator(LogLocator(numticks=6))
        return
    shorter = _in_view(low, high, (1, 2, 5)) < 2
    side.set_major_locator(
        MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]) if shorter else LogLocator(subs=(1, 2, 5), numticks=6)
    )
    side.set_major_formatter(FuncFormatter(_label))


def _in_view(low: float, high: float, multiples: tuple[int, ...]) -> int:
    """How many of these multiples of powers of ten lie between low and high."""
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    return sum(low <= multiple * 10.0**decade <= high for decade in decades for multiple in multiples)


def _label(value: float, _: int) -> str:
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    return rf"${float(mantissa):g}\times10^{{{int(exponent)}}}$"
