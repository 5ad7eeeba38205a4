r"""Tables for a paper: best step sizes, where they end and bits to levels, in LaTeX with booktabs.

A file of them is \input into a document that has \usepackage{booktabs}. In two columns of text a
table that is too wide for one spans both.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from plots.runs.best import rule_in_words
from plots.runs.columns import higher_is_better, in_words
from plots.runs.levels import bits_to_reach, usual_levels
from plots.runs.results import finals
from plots.runs.seeds import in_order, repeated

_COLUMN = 44
"""Characters of 10 points, gaps between columns included, that fit into a column of 3.25 inches."""

_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--", "−": "$-$", "×": r"$\times$", "‖": r"$\|$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}  # fmt: skip


def tables(frame: pd.DataFrame, metric: str = "", x: str = "bits") -> str:
    """The tables of rows of `plots.runs.variants.table`.

    `metric` is each task's own unless it is given, and `x` what it costs to get to its levels. Raises ValueError for
    a metric that no run has.
    """
    found = finals(frame, metric)
    named = frame.drop_duplicates("task")
    labels = {str(task): escaped(label) for task, label in zip(named["task"], named["task_label"], strict=True)}
    seeds = _about_seeds(frame)
    parts = [_best(found, labels, rule_in_words(frame, metric))]
    for name, some in found.groupby("metric", sort=False):
        parts.append(_ends(some, labels, str(name), seeds))
        for task in some["task"].unique():
            rows = frame[frame["task"] == task]
            if levels := usual_levels(rows, str(name)):
                parts.append(_costs(bits_to_reach(rows, str(name), levels, x), labels[task], str(name), x, seeds))
    return "\n".join(["% needs \\usepackage{booktabs}", *parts])


def escaped(text: str) -> str:
    """A text as LaTeX prints it: its special characters escaped, Greek letters and small digits as formulas."""
    return "".join(_SPECIAL.get(letter) or _symbol(letter) for letter in text)


def number(value: float, digits: int = 3, mark: str = "") -> str:
    """A number to so many digits, with a power of ten where it is far from 1, and a mark; a dash where it is NaN."""
    if not math.isfinite(value):
        return "--"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"${float(f'{value:.{digits}g}'):g}{mark}$"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    factor = "" if float(mantissa) == 1 else rf"{float(mantissa):g}\times"
    return rf"${factor}10^{{{int(exponent)}}}{mark}$"


def _symbol(letter: str) -> str:
    name = unicodedata.name(letter, "")
    if name.startswith("GREEK SMALL LETTER ") and " " not in name[19:]:
        return f"$\\{name[19:].lower().replace('lamda', 'lambda')}$"
    way, _, digit = unicodedata.decomposition(letter).partition(" ")
    if way in ("<sub>", "<super>"):
        return f"${'_' if way == '<sub>' else '^'}{{{chr(int(digit, 16))}}}$"
    return letter


def _best(found: pd.DataFrame, labels: Mapping[str, str], rule: str) -> str:
    cells = [number(lr, 6, "^{*}" if on_edge else "") for lr, on_edge in zip(found["lr"], found["edge"], strict=True)]
    edge = " $^{*}$\\,no smaller, or no larger, step size was tried." if found["edge"].any() else ""
    return _table(found.assign(cell=cells), labels, f"Best step sizes: {escaped(rule)}.{edge}")


def _ends(found: pd.DataFrame, labels: Mapping[str, str], metric: str, seeds: str) -> str:
    ends = found[["final", "final_low", "final_high"]].to_numpy(dtype=float)
    cells = [
        number(mean) + (_spread(low, high) if count > 1 else "")
        for (mean, low, high), count in zip(ends, found["seeds"], strict=True)
    ]
    caption = f"The {escaped(in_words(metric))} at the last evaluation, each method with its best step size; {seeds}."
    return _table(found.assign(cell=cells), labels, caption)


def _costs(reached: pd.DataFrame, task: str, metric: str, x: str, seeds: str) -> str:
    there = [name if name in reached else x for name in (x, f"{x}_min", f"{x}_max")]
    costs = reached[there].to_numpy(dtype=float)
    several = f"{x}_min" in reached
    cells = [number(cost) + (_spread(low, high) if several else "") for cost, low, high in costs]
    way = "at or above" if higher_is_better(metric) else "at or below"
    counted = {"bits": "bits of one worker, both directions,"}.get(x, escaped(in_words(x)))
    caption = (
        f"{task}: {counted} until the {escaped(in_words(metric))} was first seen {way} a level, the least over all "
        f"step sizes tried; {seeds}. A dash: none got there."
    )
    columns = {level: number(level) for level in reached["level"].unique()}
    return _table(reached.assign(cell=cells, task=reached["level"]), columns, caption)


def _spread(low: float, high: float) -> str:
    return f" [{number(low)}, {number(high)}]" if math.isfinite(low) else ""


def _about_seeds(frame: pd.DataFrame) -> str:
    if not repeated(frame):
        return f"one seed, {in_order(frame['seed'])}" if frame["seed"].nunique() == 1 else "one seed a method"
    return f"means over seeds {in_order(frame['seed'])}, the least and the greatest in brackets"


def _table(cells: pd.DataFrame, columns: Mapping, caption: str) -> str:
    """A method a line and a task, or whatever `columns` has heads of, a column."""
    heads = [key for key in columns if key in set(cells["task"])]
    grid = dict(zip(zip(cells["algorithm"], cells["task"], strict=True), cells["cell"], strict=True))
    names = cells.drop_duplicates("algorithm")[["algorithm", "label"]].itertuples(index=False)
    lines = [[escaped(label), *(grid.get((name, key), "--") for key in heads)] for name, label in names]
    return _environment(caption, ["Method", *(columns[key] for key in heads)], lines)


def _environment(caption: str, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"    {' & '.join(cells)} \\\\"

    lines = list(lines)
    columns = "l" + "r" * (len(heads) - 1)
    kind = "table*" if sum(_width(column) + 2 for column in zip(heads, *lines, strict=True)) > _COLUMN else "table"
    return "\n".join([
        f"\\begin{{{kind}}}", "  \\centering", f"  \\caption{{{caption}}}", f"  \\begin{{tabular}}{{{columns}}}",
        "    \\toprule", line(heads), "    \\midrule", *map(line, lines), "    \\bottomrule", "  \\end{tabular}",
        f"\\end{{{kind}}}", "",
    ])  # fmt: skip


def _width(cells: Iterable[str]) -> int:
    """Of a column in characters, without what LaTeX does not print."""
    return max(len(re.sub(r"\\[a-z]+|[${}^\\]", "", cell)) for cell in cells)
