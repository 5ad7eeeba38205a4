"""What it costs to get somewhere: bits to reach given levels of a metric."""

from __future__ import annotations

import pandas as pd

from plots.runs.columns import higher_is_better


def bits_to_reach(frame: pd.DataFrame, metric: str, levels: list[float]) -> pd.DataFrame:
    """The fewest bits after which each method was seen at or beyond each level, over all its step sizes.

    `frame` is that of `plots.runs.read.read`. Beyond is below, of accuracies above. Returns columns task, algorithm,
    label, level, bits, round, lr; the last three are missing where no step size got there. With several seeds bits
    and round are means, `bits_min` and `bits_max` stand beside them, and only step sizes with which every seed got
    there count.
    """
    found = []
    for (task, algorithm), rows in frame.groupby(["task", "algorithm"], sort=False):
        for level in levels:
            there = rows[rows[metric] >= level if higher_is_better(metric) else rows[metric] <= level]
            first = there.sort_values("bits").drop_duplicates(["lr", "seed"])  # of each trial, cheapest first
            found.append(
                {
                    "task": task,
                    "algorithm": algorithm,
                    "label": rows["label"].iloc[0],
                    "level": level,
                    **_cheapest(first, rows["seed"].nunique()),
                }
            )
    return pd.DataFrame(found)


def _cheapest(first: pd.DataFrame, seeds: int) -> dict[str, float | None]:
    """Of the step sizes with which all seeds got there, the one with the fewest bits; of equals the smallest."""
    several = ("bits_min", "bits_max") if seeds > 1 else ()
    complete = first.groupby("lr")["seed"].transform("nunique") == seeds
    first = first[complete]
    if first.empty:
        return dict.fromkeys(("bits", "round", "lr", *several))
    bits = first.groupby("lr")["bits"].mean()
    lr = float(bits.index[int(bits.argmin())])
    chosen = first[first["lr"] == lr]
    if seeds == 1:
        return {name: chosen[name].iloc[0] for name in ("bits", "round", "lr")}
    bits = chosen["bits"]
    return {
        "bits": bits.mean(), "round": chosen["round"].mean(), "lr": lr, "bits_min": bits.min(), "bits_max": bits.max()
    }  # fmt: skip
