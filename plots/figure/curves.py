"""Curves of several methods over bits, rounds or epochs."""

import math
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from PIL import Image

from common.files import name_in_errors
from plots.claims.check import short_exponent
from plots.figure.spec import MOST, Panel
from plots.runs.columns import label
from plots.runs.seeds import average_seeds
from plots.runs.variants import DASHES

Cell = TypeVar("Cell")
_Places = list[list[tuple[str, Panel]]]

use_style = partial(plt.style.context, str(Path(__file__).with_name("style.mplstyle")), after_reset=True)
"""Use the style in which pictures are drawn and saved. A user's matplotlibrc is ignored."""

WIDEST = 4
"""The most panels in a row."""

LETTER = 0.062
"""The width of a letter in a legend, in inches at the usual size."""

_MARKERS = 7
"""Markers on a curve. Curves have them at different places, so that each is seen if curves coincide."""

_CROSS = "cross"
"""The gid of marks of diverged curves."""


def draw(
    frame: pd.DataFrame,
    rows: Sequence[Panel],
    note: str,
    width: float | None = None,
    families: Sequence[Sequence[str]] = (),
) -> Figure:
    """Draw panels of `rows` × tasks with one curve for each method, and a note in small print below.

    Close the figure after use. Panels of one task, or tasks of one panel, stand side by side, up to four in a row.
    `frame` holds one trial per task, algorithm and seed (columns of `table` or `variant_rows`, and `front` for curves
    on top of others). For several seeds the curve is the mean, geometric on a logarithmic axis, in a band from the
    least to the greatest. A logarithmic axis of bits leaves out round 0.

    Each of `families` has panels and a legend of its own. Other methods are drawn seven at a time. The curve of a run
    that diverged (`diverged`) ends in a cross, at the panel's upper edge if it goes on above. Axes have their task
    as label.
    """
    tasks, names = list(frame["task"].unique()), list(frame["algorithm"].unique())
    several = len(tasks) > 1
    with use_style():
        width = width or max(6.6, 0.5 + 1.85 * min(WIDEST, len(tasks) if several else len(rows)))
        others = [name for name in names if not any(name in family for family in families)]
        groups = [frame[frame["algorithm"].isin(family)] for family in [*families, *_rows(others, MOST)]]
        blocks = [(group, *_block(group, rows, width)) for group in groups if len(group)]
        heights = [height + 0.36 * (not several) for *_, height in blocks]
        figure = plt.figure(figsize=(width, sum(heights)), layout="constrained")
        places = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=heights)[:, 0]
        for place, (group, cells, labels, columns, _) in zip(places, blocks, strict=True):
            handles = _draw_block(place, group, cells, labels, several, width)
            columns = math.ceil(len(handles) / math.ceil(len(handles) / columns))  # as even as possible
            place.legend(
                handles.values(), handles.keys(), loc="outside upper center", ncols=columns, fontsize=_fontsize(width)
            )
        if not several:
            places[0].legends[0].set_title(frame["task_label"].iloc[0])
        _share_ranges(figure)
        for axis in figure.axes:
            places = np.unique(np.concatenate([line.get_xdata() for line in axis.get_lines()]))
            set_log_ticks(axis.xaxis, may_be_short=False)
            if len(places) <= _MARKERS and axis.get_xlabel() in map(label, ("batch_size", "round")):
                size = 7.0 if len(places) < 6 else 5.5
                axis.set_xticks(places, [f"{place:g}" for place in places], fontsize=size)  # the values that were run
            set_log_ticks(axis.yaxis)
            for cross in (mark for mark in axis.collections if mark.get_gid() == _CROSS):
                [(x, y)], top = np.asarray(cross.get_offsets()), axis.get_ylim()[1]
                if y > top:
                    cross.set(offsets=[(x, top)], clip_on=False)
        if text := textwrap.fill(note, int(18 * width)):
            figure.set_size_inches(width, sum(heights) + 0.13 * len(text.splitlines()))
            figure.supxlabel(text)
    return figure


def _block(frame: pd.DataFrame, panels: Sequence[Panel], width: float) -> tuple[_Places, dict[str, str], int, float]:
    """Plan a block: task and panel by place, labels by method, columns of the legend, and the height."""
    tasks = list(frame["task"].unique())
    across = max(1, min(WIDEST, int(width / 1.45)))
    if len(tasks) > 1 and len(panels) > 1 and not any(panel.task for panel in panels):
        places = [[(task, panel) for task in row] for row in _rows(tasks, across) for panel in panels]
    else:
        places = _rows([(task, panel) for task in tasks for panel in panels if panel.shows(task)], across)
    letter = LETTER * _fontsize(width) / 8
    longest = int((width - 0.6) / letter)
    names = frame.groupby("algorithm", sort=False)["label"].first()
    labels = {str(name): textwrap.fill(text, longest, break_on_hyphens=False) for name, text in names.items()}
    lines = [line for text in labels.values() for line in text.split("\n")]
    columns = max(1, int((width - 0.3) / (0.6 + letter * max(map(len, lines)))))
    tallest = max(text.count("\n") + 1 for text in labels.values())
    panel = min(1.6, 0.35 + 0.8 * width / len(places[0]))
    height = 0.25 + len(places) * panel + 0.16 * tallest * math.ceil(len(labels) / columns)
    return places, labels, columns, height


def _fontsize(width: float) -> float:
    """Font size of a legend in points. It is smaller for a column of a paper."""
    return 8 if width > 5 else 6


def _draw_block(
    place: FigureBase, frame: pd.DataFrame, places: _Places, labels: dict[str, str], several: bool, width: float
) -> dict[str, Line2D]:
    axes, handles = place.subplots(len(places), len(places[0]), squeeze=False), {}
    tasks, above = dict(list(frame.groupby("task", sort=False))), None
    columns = len(places[0])
    letters = 96 // columns if width >= 6.6 else max(8, int(15 * (width / columns - 0.6)))  # of a title's line
    for cells, row in zip(places, axes, strict=True):
        for number, ((task, panel), axis) in enumerate(zip(cells, row, strict=False)):
            title = str(tasks[task]["task_label"].iloc[0])
            axis.set_label(task)
            _draw_panel(axis, tasks[task], panel, labels)
            handles |= {str(line.get_label()): line for line in axis.get_lines()}
            if not several or not number or cells[number - 1][1] != panel:
                axis.set_ylabel(_wrap(label(panel.y), 26))
            if several and not (above and above[number][0] == task):
                axis.set_title(_wrap(title, letters))
        for axis in row[len(cells) :]:
            axis.remove()
        above = cells
    return handles


def _wrap(text: str, most: int) -> str:
    """Wrap a long label. A formula, after two spaces, stays whole."""
    lines = text.replace("  ", "\n").split("\n")
    return "\n".join(line if "$" in line else textwrap.fill(line, most) for line in lines)


def _draw_panel(axis: Axes, frame: pd.DataFrame, panel: Panel, labels: dict[str, str]) -> None:
    curves, drawn, top = frame.groupby("algorithm", sort=False), list[tuple[np.ndarray, np.ndarray]](), -math.inf
    heights = _heights(frame[panel.y], panel)
    least_gap = 0.05 * (heights.max() - heights.min())
    for place, (name, curve) in enumerate(curves):
        line = average_seeds(curve, panel.x, panel.y, geometric=panel.y_scale == "log")
        if panel.x_scale == "log":
            line = line[line["x"] > 0]
        shown, points = curve.iloc[0], line[["x", "mean"]].to_numpy(dtype=float)
        height = _heights(line["mean"], panel).to_numpy(dtype=float)
        covers = any(
            len(other) == len(points)
            and np.allclose(other, points, rtol=0.01, equal_nan=True)
            and not (abs(before - height) > least_gap).any()
            for other, before in drawn
        )
        drawn.append((points, height))
        top = top if shown.get("diverged") else np.fmax(top, line["high"].max())
        dash = (2, 2) if covers else DASHES[shown.get("dash", 0)]  # keeps the curve below visible
        color, size = shown["color"], plt.rcParams["lines.markersize"]
        axis.plot(
            line["x"], line["mean"], color=color, label=labels[str(name)],
            zorder=2.2 if covers else 2.1 if shown.get("front") else 2,
            linestyle=(0, dash) if line["mean"].notna().any() else "",
            marker=shown["marker"], markersize=1.7 * size if shown["marker"] == "*" else size,  # its rays are thin
            markevery=_spaced_points(line["x"].to_numpy(dtype=float), panel.x_scale, place / len(curves)),
        )  # fmt: skip
        if shown.get("diverged") and len(line):
            end = line[["x", "mean"]].iloc[-1]
            axis.scatter(*end, marker="x", color=color, s=30, linewidth=1.5, zorder=3, gid=_CROSS)
        if curve["seed"].nunique() > 1:
            axis.fill_between(line["x"], line["low"], line["high"], color=color, alpha=0.2, linewidth=0)
    axis.set_gid(panel.y)
    axis.set(xscale=panel.x_scale, yscale=panel.y_scale, xlabel=label(panel.x))
    if panel.y_max is None and np.isfinite(top):  # diverged curves would flatten the others
        axis.dataLim.y1 = min(axis.dataLim.y1, top)
    if panel.guide is not None:
        ends = np.array([frame[panel.x].min(), frame[panel.x].max()], dtype=float)  # from the upper left on
        heights = frame.loc[frame[panel.x] == ends[0], panel.y].max() * (ends / ends[0]) ** panel.guide
        name = f"slope {panel.guide:g}".replace("-", "−")
        axis.plot(ends, heights, color="#888888", linestyle=":", marker="", label=name)
    _cut(axis, panel)


def _heights(values: pd.Series, panel: Panel) -> pd.Series:
    """Return values as heights in a panel, cut at its limits. Values that a log axis cannot show become NaN."""
    values = values.clip(panel.y_min, panel.y_max)
    return values.where(values > 0).transform(np.log) if panel.y_scale == "log" else values


def _cut(axis: Axes, panel: Panel) -> None:
    """Cut the panel at y_min or y_max if curves go on beyond, with room for the visible parts only.

    With both, the panel has exactly this range."""
    low, high = panel.y_min, panel.y_max
    if low is None or high is None:
        least, most = axis.dataLim.intervaly
        axis.dataLim.y0, axis.dataLim.y1 = np.clip([least, most], low, high)
        axis.autoscale_view()
        bottom, top = axis.get_ylim()
        low = low if low is not None and least < low else bottom
        high = high if high is not None and most > high else top
    axis.set_ylim(low, high)
    scales = axis.xaxis.get_transform(), axis.yaxis.get_transform()
    for line in axis.get_lines():  # an arrow if a curve leaves the panel for good
        x, y = map(np.asarray, line.get_data())
        inside = np.flatnonzero((y >= low) & (y <= high))
        if len(inside) and inside[-1] + 1 < len(y) and not np.isnan(y[inside[-1] + 1]):
            ends = slice(inside[-1], inside[-1] + 2)
            place, marker = (low, "v") if y[ends][1] < low else (high, "^")
            along, up = (scale.transform(part[ends]) for scale, part in zip(scales, (x, y), strict=True))
            share = (scales[1].transform([place])[0] - up[0]) / (up[1] - up[0])
            leaves = scales[0].inverted().transform([along[0] + share * (along[1] - along[0])])
            axis.scatter(leaves, place, s=16, marker=marker, color=line.get_color(), clip_on=False, zorder=3)


def _spaced_points(x: np.ndarray, scale: str, shift: float) -> list[int]:
    """Indices of points evenly spaced on an axis of this scale, shifted by a share of their distance."""
    if len(x) <= _MARKERS:
        return list(range(len(x)))
    places = np.log(x) if scale == "log" else x
    at = places[0] + (np.arange(_MARKERS) + shift) / _MARKERS * (places[-1] - places[0])
    return sorted({*np.searchsorted(places, at).tolist()})


def _share_ranges(figure: Figure) -> None:
    """Give panels of the same quantity and scale one range, unless a panel's curves would fill less than a third."""
    alike: dict[tuple, list[Axes]] = {}
    for axis in figure.axes:
        alike.setdefault((axis.get_gid(), axis.get_yscale()), []).append(axis)
    for (_, scale), axes in alike.items():
        limits = np.array([axis.get_ylim() for axis in axes])
        low, high = limits[:, 0].min(), limits[:, 1].max()
        heights = np.diff(np.log(limits) if scale == "log" else limits)
        if heights.min() >= (np.log(high / low) if scale == "log" else high - low) / 3:
            for axis in axes:
                axis.set_ylim(low, high)


def set_log_ticks(side: Axis, may_be_short: bool = True) -> None:
    """Set ticks of a logarithmic axis: decades; below two, also 2 and 5 times these; below one, round numbers.

    With `may_be_short` False, two visible powers of ten are enough.
    """
    if side.get_scale() != "log":
        return
    low, high = np.log10(sorted(side.get_view_interval()))
    side.set_minor_locator(NullLocator())
    if high - low >= 2 or (not may_be_short and math.ceil(low) < math.floor(high)):
        side.set_major_locator(LogLocator(numticks=6))
        return
    is_short = high - low < 1
    side.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]) if is_short else LogLocator(subs=(1, 2, 5)))
    side.set_major_formatter(lambda x, _: short_exponent(f"{x:g}"))


def save(figure: Figure, *targets: Path) -> None:
    """Write a figure to files, in the formats of their suffixes, and close it.

    A PNG has 256 colours, which halves its size and is not visible in curves."""
    with use_style():
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            with name_in_errors(target):
                if target.suffix.lower() == ".png":  # drawn once: savefig draws twice
                    dpi = plt.rcParams["savefig.dpi"]
                    figure.set_dpi(dpi)
                    canvas = FigureCanvasAgg(figure)
                    canvas.draw()
                    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
                    reduced = image.quantize(256, dither=Image.Dither.NONE)
                    reduced.save(target, optimize=True, dpi=(dpi, dpi))
                else:
                    figure.savefig(target)
    plt.close(figure)


def _rows(cells: Sequence[Cell], across: int) -> list[list[Cell]]:
    """Split cells into the fewest rows, all but the last of one length."""
    length = math.ceil(len(cells) / max(1, math.ceil(len(cells) / across)))
    return [list(cells[begin : begin + length]) for begin in range(0, len(cells), max(1, length))]
