r"""Tables for a paper: best step sizes, where they end and bits to levels, in LaTeX with booktabs.

A file of them is \input into a document that has \usepackage{booktabs}.
"""

import math
import unicodedata
from collections.abc import Mapping

import pandas as pd

from plots.runs.best import rule_in_words
from plots.runs.columns import higher_is_better, in_words
from plots.runs.levels import bits_to_reach, usual_levels
from plots.runs.results import finals
from plots.runs.seeds import in_order, repeated

_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--", "−": "$-$", "×": r"$\times$", "‖": r"$\|$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}  # fmt: skip


def latex_tables(frame: pd.DataFrame, metric: str = "", x: str = "bits") -> str:
    """The tables of rows of `plots.runs.variants.variant_rows`.

    `metric` is each task's own unless it is given, and `x` what it costs to get to its levels. Raises ValueError for
    a metric that no run has.
    """
    found, seeds = finals(frame, metric), _about_seeds(frame)
    labels = {task: escaped(rows["task_label"].iloc[0]) for task, rows in frame.groupby("task", sort=False)}
    marks = ["^{*}" if on_edge else "" for on_edge in found["edge"]]
    sizes = [number(lr, 6, mark) for lr, mark in zip(found["lr"], marks, strict=True)]
    edge = " $^{*}$\\,no smaller, or no larger, step size was tried." if found["edge"].any() else ""
    best = f"Best step sizes: {escaped(rule_in_words(frame, metric))}.{edge}"
    parts = ["% needs \\usepackage{booktabs}", _table(found.assign(cell=sizes), labels, best)]
    for key, some in found.groupby("metric", sort=False):
        name = str(key)
        measured = escaped(in_words(name))
        cells = _means(some, "final", "final_low", "final_high", some["seeds"] > 1)
        ends = f"The {measured} at the last evaluation, each method with its best step size; {seeds}."
        parts.append(_table(some.assign(cell=cells), labels, ends))
        way = "at or above" if higher_is_better(name) else "at or below"
        counted = {"bits": "bits of one worker, both directions,"}.get(x, escaped(in_words(x)))
        for task in some["task"].unique():
            rows = frame[frame["task"] == task]
            reached = bits_to_reach(rows, name, usual_levels(rows, name), x)
            if reached.empty:
                continue
            several = f"{x}_min" in reached
            low, high = (f"{x}_min", f"{x}_max") if several else (x, x)
            cells = _means(reached, x, low, high, pd.Series(several, reached.index))
            caption = (
                f"{labels[task]}: {counted} until the {measured} was first seen {way} a level, the least over all "
                f"step sizes tried; {seeds}. A dash: none got there."
            )
            levels = {level: number(level) for level in reached["level"].unique()}
            parts.append(_table(reached.assign(cell=cells, task=reached["level"]), levels, caption))
    return "\n".join(parts)


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


def _means(rows: pd.DataFrame, mean: str, low: str, high: str, several: pd.Series) -> list[str]:
    """A column of numbers; of several seeds with the least and the greatest in brackets."""
    values = zip(*(rows[name].astype(float) for name in (mean, low, high)), several, strict=True)
    return [
        number(value) + (f" [{number(least)}, {number(most)}]" if spread and math.isfinite(least) else "")
        for value, least, most, spread in values
    ]


def _about_seeds(frame: pd.DataFrame) -> str:
    if not repeated(frame):
        return f"one seed, {in_order(frame['seed'])}" if frame["seed"].nunique() == 1 else "one seed a method"
    return f"means over seeds {in_order(frame['seed'])}, the least and the greatest in brackets"


def _table(cells: pd.DataFrame, columns: Mapping, caption: str) -> str:
    """A method a line and a task, or whatever `columns` has heads of, a column."""
    names = {name: escaped(label) for name, label in zip(cells["algorithm"], cells["label"], strict=True)}
    heads = {key: columns[key] for key in columns if key in set(cells["task"])}
    grid = cells.pivot(index="algorithm", columns="task", values="cell").loc[[*names], [*heads]].fillna("--")
    grid = grid.set_axis([*names.values()]).set_axis([*heads.values()], axis=1)
    return grid.rename_axis(columns="Method").style.to_latex(
        hrules=True, caption=caption, position_float="centering", column_format="l" + "r" * len(heads)
    )
