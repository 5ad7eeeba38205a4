"""What it costs to get somewhere: bits to reach given levels of a metric."""

from __future__ import annotations

import pandas as pd


def bits_to_reach(frame: pd.DataFrame, metric: str, levels: list[float]) -> pd.DataFrame:
    """The fewest bits after which each method was seen at or below each level, over all its step sizes.

    `frame` is that of `plots.results.read`. Returns columns task, algorithm, label, level, bits, round, lr; the last
    three are missing where no step size got there.
    """
    found = []
    for (task, algorithm), rows in frame.groupby(["task", "algorithm"], sort=False):
        for level in levels:
            there = rows[rows[metric] <= level].sort_values("bits")
            first = there.iloc[0] if len(there) else pd.Series(dtype=float)
            found.append(
                {
                    "task": task,
                    "algorithm": algorithm,
                    "label": rows["label"].iloc[0],
                    "level": level,
                    **{name: first.get(name) for name in ("bits", "round", "lr")},
                }
            )
    return pd.DataFrame(found)
