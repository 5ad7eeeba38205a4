"""What it costs to get somewhere: bits to reach given levels of a metric."""

from collections.abc import Hashable, Sequence

import pandas as pd

from plots.runs.columns import sign


def bits_to_reach(frame: pd.DataFrame, metric: str, levels: Sequence[float], x: str = "bits") -> pd.DataFrame:
    """The fewest bits after which each method was seen at or beyond each level, over all its step sizes.

    `frame` has the rows of `Run.frame`. Beyond is below, of accuracies above. Returns columns task, algorithm,
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
