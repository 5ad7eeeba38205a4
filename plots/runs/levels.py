"""What it costs to get somewhere: bits to reach given levels of a metric."""

import math
from collections.abc import Sequence

import pandas as pd

from plots.runs.columns import sign


def bits_to_reach(frame: pd.DataFrame, metric: str, levels: Sequence[float], x: str = "bits") -> pd.DataFrame:
    """The fewest bits after which each method was seen at or beyond each level, over all its step sizes.

    `frame` has the rows of `RunRecord.frame`. Beyond is below, of accuracies above. Returns columns task, algorithm,
    label, level, bits, round, lr; the last three are missing where no step size got there. With several seeds bits
    and round are means, `bits_min` and `bits_max` stand beside them, and only step sizes with which every seed got
    there count. `x` is counted instead of bits where it is given, and has its name in the columns.
    """
    curve, ends, parts = ["task", "algorithm"], [f"{x}_min", f"{x}_max"], []
    methods = frame.groupby(curve, sort=False).agg(label=("label", "first"), seeds=("seed", "nunique"))
    for level in levels:
        there = frame[sign(metric) * frame[metric] <= sign(metric) * level].sort_values(x)
        first = there.drop_duplicates([*curve, "lr", "seed"]).groupby([*curve, "lr"])
        costs = first[[*dict.fromkeys((x, "round"))]].mean().assign(got=first["seed"].nunique())
        costs[ends] = first[x].agg(["min", "max"])
        complete = methods.join(costs.reset_index("lr"), how="inner").query("got == seeds").sort_values([x, "lr"])
        best = complete.groupby(curve).head(1).drop(columns=["label", "seeds", "got"])
        parts.append(methods.join(best).assign(level=level))
    found = pd.concat(parts).reset_index()
    found[ends] = found[ends].where(found["seeds"] > 1)
    names = [
        *curve,
        "label",
        "level",
        *dict.fromkeys((x, "round")),
        "lr",
        *(ends if found["seeds"].max() > 1 else ()),
    ]
    return found[names]


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
