"""What it costs to get somewhere: bits to reach given levels of a metric."""

import math
from collections.abc import Hashable, Sequence

import pandas as pd

from plots.runs.columns import sign


def bits_to_reach(frame: pd.DataFrame, metric: str, levels: Sequence[float], x: str = "bits") -> pd.DataFrame:
    """The fewest bits after which each method was seen at or beyond each level, over all its step sizes.

    `frame` has the rows of `RunRecord.frame`. Beyond is below, of accuracies above. Returns columns task, algorithm,
    label, level, bits, round, lr; the last three are missing where no step size got there. With several seeds bits
    and round are means, `bits_min` and `bits_max` stand beside them, and only step sizes with which every seed got
    there count. `x` is counted instead of bits where it is given, and has its name in the columns.
    """
    found = []
    for (task, algorithm), rows in frame.groupby(["task", "algorithm"], sort=False):
        for level in levels:
            there = rows[sign(metric) * rows[metric] <= sign(metric) * level]
            place = {"task": task, "algorithm": algorithm, "label": rows["label"].iloc[0], "level": level}
            found.append(place | _cheapest(there, rows["seed"].nunique(), x))
    return pd.DataFrame(found)


def _cheapest(there: pd.DataFrame, seeds: int, x: str) -> dict[Hashable, float | None]:
    """Of the step sizes with which all seeds got there, the one with the least x; of equals the smallest."""
    first = there.sort_values(x).drop_duplicates(["lr", "seed"]).groupby("lr")
    mean = "first" if seeds == 1 else "mean"
    asked = {x: (x, mean), "round": ("round", mean), f"{x}_min": (x, "min"), f"{x}_max": (x, "max")}
    costs = first.agg(**asked)
    names: list[Hashable] = [*dict.fromkeys((x, "round")), "lr", *((f"{x}_min", f"{x}_max") if seeds > 1 else ())]
    complete = costs[first["seed"].nunique() == seeds].reset_index()[names]
    return next(iter(complete.nsmallest(1, x).to_dict("records")), dict.fromkeys(names))


def usual_levels(frame: pd.DataFrame, metric: str) -> list[float]:
    """Levels to compare one task's methods at where none are asked for: those that lie between the best start and the
    best value of all curves, from the easiest on. Decades, five at most; of accuracies tenths; where fewer than two
    of these lie there, round numbers."""
    values = frame.loc[frame[metric] > 0, ["round", metric]]
    starts = values.loc[values["round"] == values["round"].min(), metric]
    if starts.empty:
        return []
    higher = sign(metric) < 0
    low, high = (starts.max(), values[metric].max()) if higher else (values[metric].min(), starts.min())
    powers = range(math.floor(math.log10(high)), math.ceil(math.log10(low)) - 1, -1)
    tenths = [count / 10 for count in range(1, 10) if low < count / 10 <= high]
    levels = tenths if higher else [float(f"1e{power}") for power in powers if float(f"1e{power}") < high][:5]
    if len(levels) < 2 and high > low:
        from matplotlib.ticker import MaxNLocator  # which takes a while to import

        ticks = [float(f"{tick:.12g}") for tick in MaxNLocator(5).tick_values(low, high) if low < tick <= high]
        levels = ticks if higher else ticks[::-1]
    return levels
