"""What it costs to get somewhere: bits to reach given levels of a metric."""

from collections.abc import Hashable

import pandas as pd

from plots.runs.columns import sign


def bits_to_reach(frame: pd.DataFrame, metric: str, levels: list[float]) -> pd.DataFrame:
    """The fewest bits after which each method was seen at or beyond each level, over all its step sizes.

    `frame` has the rows of `Run.frame`. Beyond is below, of accuracies above. Returns columns task, algorithm,
    label, level, bits, round, lr; the last three are missing where no step size got there. With several seeds bits
    and round are means, `bits_min` and `bits_max` stand beside them, and only step sizes with which every seed got
    there count.
    """
    found = []
    for (task, algorithm), rows in frame.groupby(["task", "algorithm"], sort=False):
        for level in levels:
            there = rows[sign(metric) * rows[metric] <= sign(metric) * level]
            place = {"task": task, "algorithm": algorithm, "label": rows["label"].iloc[0], "level": level}
            found.append(place | _cheapest(there, rows["seed"].nunique()))
    return pd.DataFrame(found)


def _cheapest(there: pd.DataFrame, seeds: int) -> dict[Hashable, float | None]:
    """Of the step sizes with which all seeds got there, the one with the fewest bits; of equals the smallest."""
    first = there.sort_values("bits").drop_duplicates(["lr", "seed"]).groupby("lr")
    mean = "first" if seeds == 1 else "mean"
    costs = first.agg(bits=("bits", mean), round=("round", mean), bits_min=("bits", "min"), bits_max=("bits", "max"))
    names: list[Hashable] = ["bits", "round", "lr", *(("bits_min", "bits_max") if seeds > 1 else ())]
    complete = costs[first["seed"].nunique() == seeds].reset_index()[names]
    return next(iter(complete.nsmallest(1, "bits").to_dict("records")), dict.fromkeys(names))
