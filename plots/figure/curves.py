"""Curves of several methods over bits, rounds or epochs."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from PIL import Image

from common.files import naming
from plots.figure.coinciding import coinciding
from plots.figure.lettering import balanced, drawable, in_lines, joined
from plots.figure.look import MOST, SIZE, Look
from plots.figure.spec import Panel
from plots.runs.columns import in_words, label
from plots.runs.seeds import over_seeds
from plots.runs.variants import DASHES

Cell = TypeVar("Cell")

STYLE = Path(__file__).with_name("style.mplstyle")

WIDEST = 4
"""Panels beside each other, where there is room for them."""


LETTER = 0.062
"""Inches of a legend's letter, at the usual size."""


def draw(
    frame: pd.DataFrame,
    rows: Sequence[Panel],
    note: str,
    look: Look = Look(),  # noqa: B008  (it is frozen)
    families: Sequence[Sequence[str]] = (),
) -> Figure:
    """Panels of `rows` × tasks with one curve a method, and a note in small print below.

    Where there is only one task its panels stand beside each other, with its name above the legend, and so do the
    tasks of a single panel, or with panels of their own, up to four to a row. `frame` holds one trial per task,
    algorithm and seed (columns of `RunRecord.frame`, or of `Variant.frame`, and, where some lie above others,
    `front`). Of several seeds the curve is the mean, geometric on a logarithmic axis, in a band from the least to the
    greatest.
    Round 0 has no place on a logarithmic axis of bits and is left out there. Methods are drawn by `families`, each in
    panels of the tasks that it has curves on and with a legend of its own; without any, all in one or, of more than
    seven, in as many as that takes. Curves that lie on one another are named in the note, and one of a run that
    diverged (`diverged`) ends in a cross. Axes are labelled by their task. Close the figure after use.
    """
    tasks = {str(task): rows for task, rows in frame.groupby("task", sort=False)}
    with plt.style.context([str(STYLE), look.settings()]):
        width = look.width or max(6.6, 0.5 + 1.85 * min(WIDEST, len(tasks) if len(tasks) > 1 else len(rows)))
        page = _Page(width, look, len(rows), len(tasks) > 1)
        blocks = [_block(frame, tasks, rows, some, page) for some in _groups(frame, families)]
        heights = [_height(block, page) for block in blocks]
        figure = plt.figure(figsize=(width, sum(heights)), layout="constrained")
        places: Iterable[FigureBase] = [figure]
        if len(blocks) > 1:
            places = figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=heights)[:, 0]
        same = []
        for place, block in zip(places, blocks, strict=True):
            same += _draw_block(place, block, page, titled=block is blocks[0])
        _share(figure)
        _write_below(figure, [*note.splitlines(), *_in_sentences(same, page.several)], page)
    return figure


@dataclass(frozen=True)
class _Page:
    """A figure as a whole: its width in inches, its look, its panels a task, and whether it has several tasks."""

    width: float
    look: Look
    panels: int
    several: bool


@dataclass(frozen=True)
class _Block:
    """Methods that are drawn together: their rows by task, task and panel by place, and labels by method."""

    tasks: dict[str, pd.DataFrame]
    places: list[list[tuple[str, Panel]]]
    labels: dict[str, str]


def _groups(frame: pd.DataFrame, families: Sequence[Sequence[str]]) -> list[list[str]]:
    """The methods of each block."""
    names = list(dict.fromkeys(frame["algorithm"].astype(str)))
    groups = [found for some in families if (found := [name for name in some if name in names])]
    return groups or divided(names)


def _block(
    frame: pd.DataFrame, tasks: Mapping[str, pd.DataFrame], rows: Sequence[Panel], names: list[str], page: _Page
) -> _Block:
    most = WIDEST if page.panels == 1 or not page.several else len(tasks)
    across = max(1, min(most, int(page.width / 1.45)))
    parts = {task: of_task[of_task["algorithm"].isin(names)] for task, of_task in tasks.items()}
    parts = {task: of_task for task, of_task in parts.items() if len(of_task)}
    return _Block(parts, _places(list(parts), rows, across), _labels(frame, names, page.width, page.look))


def _in_sentences(same: Sequence[tuple[str, str]], several: bool) -> list[str]:
    """Which curves lie on one another, and on which tasks."""
    where: dict[str, dict[str, None]] = {}
    for what, title in same:
        where.setdefault(what, {})[title] = None
    return [f"{what}{f' on {joined(list(titles))}' if several else ''}." for what, titles in where.items()]


def _write_below(figure: Figure, lines: Sequence[str], page: _Page) -> None:
    """Lines in small print below the panels; the figure becomes higher by them."""
    size = page.look.font_size
    text = "\n".join(balanced(line, int(18 * page.width * SIZE / size)) for line in lines)
    if text:
        height = figure.get_size_inches()[1] + (0.02 + 0.014 * size) * len(text.splitlines())
        figure.set_size_inches(page.width, height)
        figure.supxlabel(drawable(text))


def divided(names: Sequence[str]) -> list[list[str]]:
    """Methods in groups of at most seven, as few as that takes and variants of one method together where they fit."""
    if len(names) <= MOST:
        return [list(names)]
    methods: dict[str, list[str]] = {}
    for name in names:
        methods.setdefault(name.partition(",")[0], []).append(name)
    groups: list[list[str]] = []
    for variants in methods.values():
        parts = math.ceil(len(variants) / MOST)
        size = math.ceil(len(variants) / parts)
        for part in (variants[begin : begin + size] for begin in range(0, len(variants), size)):
            if groups and len(groups[-1]) + len(part) <= MOST:
                groups[-1] += part
            else:
                groups.append(list(part))
    return groups


def _draw_block(place: FigureBase, block: _Block, page: _Page, titled: bool) -> list[tuple[str, str]]:
    """The panels of some methods with their legend. Returns which of their curves lie on one another, and where."""
    axes, same, handles = place.subplots(len(block.places), len(block.places[0]), squeeze=False), [], {}
    for row, cells in enumerate(block.places):
        for column, (task, panel) in enumerate(cells):
            axis, rows = axes[row][column], block.tasks[task]
            title = str(rows["task_label"].iloc[0])
            axis.set_label(task)
            lines = _draw_panel(axis, rows, panel, block.labels)
            handles |= {str(line.get_label()): line for line in axis.get_lines()}
            same += [
                (f"{joined(some)} coincide over {in_words(panel.x)}", ", ".join(title.splitlines()))
                for some in coinciding(axis, lines)
            ]
            _label_panel(axis, block, page, row, column)
        for axis in axes[row][len(cells) :]:
            axis.remove()
    if page.panels == 1:
        _share_x_labels(axes, block.places)
    title = drawable(next(iter(block.tasks.values()))["task_label"].iloc[0]) if titled and not page.several else None
    columns = _legend_columns(handles, page.width, page.look)
    place.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns, title=title)
    return same


def _label_panel(axis: Axes, block: _Block, page: _Page, row: int, column: int) -> None:
    """The y label of the first panel of its kind in a row, and the title of the first panel of a task."""
    cells = block.places[row]
    task, panel = cells[column]
    if not page.several or column == 0 or cells[column - 1][1] != panel:
        axis.set_ylabel(drawable(in_lines(label(panel.y), 20)))
    if page.several and (row == 0 or page.panels == 1 or block.places[row - 1][0][0] != cells[0][0]):
        title = str(block.tasks[task]["task_label"].iloc[0])
        axis.set_title(drawable(in_lines(title, 96 // len(block.places[0]))))


def _share_x_labels(axes: np.ndarray, places: list[list[tuple[str, Panel]]]) -> None:
    """Leave out an x label where the panel below has the same range and label."""
    for above, below, cells in zip(axes, axes[1:], places[1:], strict=False):
        for axis, other in zip(above[: len(cells)], below, strict=False):
            if axis.get_xlim() == other.get_xlim():
                axis.set_xlabel("")


def _labels(frame: pd.DataFrame, names: Sequence[str], width: float, look: Look) -> dict[str, str]:
    """By method what the legend calls it, in lines that fit; with its step sizes, where these are to stand there, one
    a task where they differ."""
    found = {}
    for name in names:
        rows = frame[frame["algorithm"] == name]
        text = str(rows["label"].iloc[0])
        if look.step_sizes:
            each = [f"{lr:g}" for lr in rows.drop_duplicates(["task", "lr"])["lr"]]
            text += f" (α = {', '.join(each if len(set(each)) > 1 else each[:1])})"
        longest = int((width / (look.font_size / SIZE) - 0.55) / LETTER)
        found[name] = textwrap.fill(text, longest, break_on_hyphens=False)
    return found


def _legend_columns(labels: Iterable[str], width: float, look: Look) -> int:
    """As many as fit beside each other, each as wide as its longest entry; they are filled one after the other."""
    inches = [(0.55 + LETTER * max(map(len, text.split("\n")))) * look.font_size / SIZE for text in labels]
    for rows in range(1, len(inches)):
        columns = [max(inches[begin : begin + rows]) for begin in range(0, len(inches), rows)]
        if sum(columns) <= width - 0.3:
            return len(columns)
    return 1


def _height(block: _Block, page: _Page) -> float:
    """Inches of some methods' panels and their legend."""
    labels, is_one = block.labels.values(), not page.several
    panel = min(1.6, 0.35 + 0.8 * page.width / len(block.places[0])) + 0.2 * is_one
    tallest = max(text.count("\n") + 1 for text in labels)
    lines = tallest * math.ceil(len(labels) / _legend_columns(labels, page.width, page.look))
    return 0.25 + len(block.places) * panel + 0.16 * (lines + is_one) * page.look.font_size / SIZE


def _share(figure: Figure) -> None:
    """Give panels that show the same quantity on the same scale one range, unless some panel's curves would then
    take up less than a third of its height."""
    alike: dict[tuple[str, str], list[Axes]] = {}
    for axis in figure.axes:
        alike.setdefault((axis.get_gid() or "", axis.get_yscale()), []).append(axis)
    for (_, scale), axes in alike.items():
        where = np.log10 if scale == "log" else np.asarray
        limits = np.array([where(np.array(axis.get_ylim())) for axis in axes])
        low, high = limits[:, 0].min(), limits[:, 1].max()
        if np.diff(limits).min() >= (high - low) / 3:
            for axis in axes:
                axis.set_ylim(*(10.0 ** np.array([low, high]) if scale == "log" else (low, high)))
    for axis in figure.axes:
        for side in (axis.xaxis, axis.yaxis):
            if side.get_scale() == "log":
                set_log_ticks(side)


def save(figure: Figure, *targets: Path, look: Look = Look()) -> None:  # noqa: B008
    """Write a figure to files, each of the type that its name ends in, and close it; exactly as wide as it is to be,
    where that was said."""
    with plt.style.context([str(STYLE), look.settings()]):
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming(target):
                figure.savefig(target)
                if target.suffix.lower() == ".png":
                    _reduce_colors(target)
    plt.close(figure)


def _reduce_colors(picture: Path) -> None:
    """Keep 256 colours, which halves the file and is not seen in curves."""
    with Image.open(picture) as image:
        reduced = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        reduced.save(picture, optimize=True, dpi=image.info["dpi"])


def _places(tasks: list[str], panels: Sequence[Panel], across: int) -> list[list[tuple[str, Panel]]]:
    """Which task and panel lies where, row by row, so many beside each other."""
    if any(panel.task for panel in panels):
        return _rows([(task, panel) for task in tasks for panel in panels if panel.shows(task)], across)
    if len(tasks) > 1 and len(panels) > 1:
        return [[(task, panel) for task in some] for some in _rows(tasks, across) for panel in panels]
    return _rows([(task, panel) for task in tasks for panel in panels], across)


def _rows(cells: list[Cell], across: int) -> list[list[Cell]]:
    """Cells in as few rows as that takes, all but the last of one length."""
    length = math.ceil(len(cells) / math.ceil(len(cells) / across))
    return [cells[begin : begin + length] for begin in range(0, len(cells), length)]


def _draw_panel(axis: Axes, frame: pd.DataFrame, panel: Panel, labels: Mapping[str, str]) -> list[Line2D]:
    """The curves of one panel; their lines."""
    lines, curves = [], frame.groupby("algorithm", sort=False)
    for place, (name, curve) in enumerate(curves):
        line = over_seeds(curve, panel.x, panel.y, geometric=panel.y_scale == "log")
        if panel.x_scale == "log":
            line = line[line["x"] > 0]
        shown = curve.iloc[0]
        marks = _spread(line["x"].to_numpy(dtype=float), panel.x_scale, place / len(curves))
        dashes = (0, DASHES[shown.get("dash", 0)]) if line["mean"].notna().any() else ""
        size = plt.rcParams["lines.markersize"] * (1.7 if shown["marker"] == "*" else 1)  # whose rays are thin
        lines += axis.plot(
            line["x"], line["mean"], color=shown["color"], marker=shown["marker"], label=drawable(labels[str(name)]),
            markevery=marks, linestyle=dashes, zorder=2.1 if shown.get("front") else 2,
            markersize=size,
        )  # fmt: skip
        if shown.get("diverged") and len(line):
            axis.scatter(
                *line[["x", "mean"]].iloc[-1], marker="x", color=shown["color"], s=30, linewidth=1.5, zorder=3
            )
        if curve["seed"].nunique() > 1:
            axis.fill_between(line["x"], line["low"], line["high"], color=shown["color"], alpha=0.2, linewidth=0)
    axis.set_gid(panel.y)
    axis.set_xscale(panel.x_scale)
    axis.set_yscale(panel.y_scale)
    axis.set_xlabel(drawable(label(panel.x)))
    if panel.guide is not None:
        _draw_guide(axis, frame, panel.x, panel.y, panel.guide)
    _cut(axis, panel)
    return lines


def _cut(axis: Axes, panel: Panel) -> None:
    """Let the panel end at y_min or y_max where curves go on beyond, with room for what is seen of them alone; with
    both, at both."""
    low = -math.inf if panel.y_min is None else panel.y_min
    high = math.inf if panel.y_max is None else panel.y_max
    if panel.y_min is not None and panel.y_max is not None:
        axis.set_ylim(low, high)
        return
    drawn = [np.asarray(line.get_xydata(), dtype=float) for line in axis.get_lines()]
    drawn += [np.asarray(path.vertices, dtype=float) for band in axis.collections for path in band.get_paths()]
    values = np.concatenate(drawn)[:, 1]
    is_below, is_above = (values < low).any(), (values > high).any()
    seen = np.concatenate([points[(points[:, 1] >= low) & (points[:, 1] <= high)] for points in drawn])
    if len(seen) and (is_below or is_above):
        axis.dataLim.intervalx, axis.dataLim.intervaly = np.transpose([seen.min(0), seen.max(0)])
        axis.autoscale_view()
        bottom, top = axis.get_ylim()
        axis.set_ylim(low if is_below else bottom, high if is_above else top)


def _draw_guide(axis: Axes, frame: pd.DataFrame, x: str, y: str, slope: float) -> None:
    """A dotted line of this slope in log-log through the upper left of the curves."""
    ends = np.array([frame[x].min(), frame[x].max()], dtype=float)
    heights = frame.loc[frame[x] == ends[0], y].max() * (ends / ends[0]) ** slope
    axis.plot(ends, heights, color="#888888", linestyle=":", marker="", label=f"slope {slope:g}".replace("-", "−"))


def _spread(x: np.ndarray, scale: str, shift: float, count: int = 7) -> list[int]:
    """Indices of about `count` points that lie evenly on an axis of this scale, moved on by a share of their
    distance: of curves on one another each has markers of its own. All of a curve of no more points."""
    if len(x) <= count:
        return list(range(len(x)))
    shares = (np.arange(count) + shift) / (count - 1)
    ends = np.log(x[[0, -1]]) if scale == "log" else x[[0, -1]]
    at = ends[0] + shares[shares <= 1] * (ends[1] - ends[0])
    return sorted(set(np.abs(x[:, None] - (np.exp(at) if scale == "log" else at)).argmin(0).tolist()))


def set_log_ticks(side: Axis) -> None:
    """About six labelled ticks at most, at decades; where fewer than three of these are in view, and at most six
    of 1, 2 and 5 times them (four side by side), at those, and on a still shorter axis at evenly spaced round
    numbers."""
    side.set_minor_locator(NullLocator())
    low, high = sorted(side.get_view_interval())
    decades = _in_view(low, high, (1,))
    most = 4 if side is side.axes.xaxis else 6
    if decades >= 3 or (decades == 2 and _in_view(low, high, (1, 2, 5)) > most):
        side.set_major_locator(LogLocator(numticks=6))
        return
    shorter = _in_view(low, high, (1, 2, 5)) < 3
    side.set_major_locator(
        MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3) if shorter else LogLocator(subs=(1, 2, 5), numticks=6)
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
