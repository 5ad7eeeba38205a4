"""The effect of each part of a method on the bits: comparisons of entries that differ in one part alone."""

from __future__ import annotations

import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from plots.figure import curves
from plots.leaderboard import statistics
from plots.leaderboard.ranking import Levels

KEYS = ["part", "one", "other"]
ALONE = ["one_alone", "other_alone"]
COLUMNS = ["level", *KEYS, "cases", "both", *ALONE, "times", "low", "high"]

MOST = 20
"""The most lines in a column."""


def effects(needs: pd.DataFrame, parts: pd.DataFrame) -> pd.DataFrame:
    """Compare the entries that differ in one part alone, for every part and every two of its values.

    `needs` come from `statistics.needs`. `parts` has a row for each entry and a column for each part, from
    `experiments.entries.parts.parts_of`.

    A case is two such entries on one task. `cases` counts them. `both` counts the cases in which every run of both
    entries reached the level; `one_alone` and `other_alone` those in which only one entry's runs did. Over the cases
    of `both`, `times` is how many times fewer bits `other` needs than `one`: a geometric mean over cases and seeds,
    with a 95 % interval over seeds.
    """
    pairs: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for part, values in parts.items():
        for _, alike in values.groupby([parts[name] for name in parts if name != part]):
            for one, other in combinations(alike.sort_values().index, 2):
                if alike[one] != alike[other]:
                    pairs[str(part), alike[one], alike[other]].append((one, other))
    tasks = [statistics.average_tasks(rows) for _, rows in needs.groupby("task")]
    rows = []
    for (part, one, other), names in pairs.items():
        logs, alone, cases = [], [0, 0], 0
        for bits, is_bound in tasks:
            misses = is_bound.any()
            reach = bits.notna().all() & ~misses
            for mine, theirs in names:
                if {mine, theirs} <= set(bits):
                    if reach[mine] and reach[theirs]:
                        logs.append(np.log(bits[mine] / bits[theirs]))
                    alone[0] += bool(reach[mine] and misses[theirs])
                    alone[1] += bool(reach[theirs] and misses[mine])
                    cases += 1
        mean = np.exp(np.mean(logs or [[np.nan]], axis=0))
        rows.append((part, one, other, cases, len(logs), *alone, *statistics.geometric_interval(mean)))
    return pd.DataFrame(rows, columns=COLUMNS[1:])


def effects_by_level(frame: pd.DataFrame, levels: Levels) -> pd.DataFrame:
    """Return `effects` at each level of a track. Columns `part.…` of the rows have the parts."""
    parts = frame.filter(like="part.").groupby(frame["algorithm"]).first().rename(columns=lambda name: name[5:])
    needs = [pd.concat(each.values()) for _, each in levels]
    tables = [effects(rows, parts).assign(level=level) for level, rows in enumerate(needs, start=1)]
    return pd.concat(tables, ignore_index=True)[COLUMNS]


def draw(table: pd.DataFrame) -> Figure:
    """Draw a line for each comparison and a dot for each level: how many times fewer bits, with 95 % intervals.

    If only one value ever reached a level, a text names it. Many lines are split into several columns.
    """
    number = table.groupby(KEYS, sort=False).ngroup()
    columns = math.ceil((number.max() + 1) / MOST)
    down = math.ceil((number.max() + 1) / columns)
    names = _names({*table["one"], *table["other"]})
    with curves.use_style():
        size = (3 + 4 * columns, 1.1 + 0.28 * down)
        figure, axes = plt.subplots(1, columns, sharex=True, squeeze=False, figsize=size, layout="constrained")
        shades = plt.get_cmap("Blues")(np.linspace(0.4, 1, table["level"].nunique()))
        for axis, (_, column) in zip(axes[0], table.assign(y=number % down).groupby(number // down), strict=True):
            for level, shade in zip(sorted(table["level"].unique()), shades, strict=True):
                rows = column[column["level"] == level]
                axis.hlines(rows["y"], rows["low"], rows["high"], color=shade, linewidth=1.4)
                axis.plot(rows["times"], rows["y"], "o", color=shade, label=f"level {level}")
            lines = []
            for _, rows in column.groupby(KEYS, sort=False):
                part, one, other = rows[KEYS].iloc[0]
                alone = [names[value] for value, name in zip((one, other), ALONE, strict=True) if rows[name].any()]
                if rows["times"].isna().all() and len(alone) == 1:
                    axis.text(1, len(lines), f" only {alone[0]} gets there", va="center", fontsize=7)
                lines.append(textwrap.fill(f"{part}: {names[one]} → {names[other]}", 60))
            axis.axvline(1, color="#999999", linewidth=0.8)
            axis.set_yticks(range(len(lines)), lines, fontsize=6)
            axis.set(xscale="log", xlabel="times fewer bits with the second", ylim=(down - 0.4, -0.6))
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_locator(NullLocator())
            axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    return figure


def _names(values: Iterable[str]) -> dict[str, str]:
    """Name values by their classes, with the options that not all values of the same class share."""
    kinds = defaultdict(list)
    for value in values:
        kinds[_kind(value)].append(value)
    names = {}
    for kind, alike in kinds.items():
        options = {value: re.findall(r"\w+=[^,()]+", value) for value in alike}
        for value, mine in options.items():
            own = [word for word in mine if not all(word in theirs for theirs in options.values())]
            names[value] = f"{kind}({', '.join(own)})" if own else kind
    return names


def _kind(value: str) -> str:
    inner = re.sub(r"\([^()]*\)", "", value)
    return value if inner == value else _kind(inner)
