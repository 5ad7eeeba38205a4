"""Which step size a method is shown with."""

from __future__ import annotations

import numpy as np
import pandas as pd

RULE = "the step size with the lowest geometric mean of the gradient norm over the last tenth of the rounds"


def level(frame: pd.DataFrame, metric: str = "grad_norm", begin: float = 0.9, end: float = 1.0) -> float:
    """Geometric mean of a metric over the rounds in (begin, end] as shares of the last one; NaN where none is there.

    A mean of logarithms, so that a curve that oscillates over decades is not judged by where it happens to end.
    """
    rounds = frame["round"] / frame["round"].max()
    values = frame.loc[(rounds > begin) & (rounds <= end), metric].to_numpy(dtype=float)
    return float(np.exp(np.log(np.maximum(values, np.finfo(float).tiny)).mean())) if len(values) else float("nan")


def mark_best(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a column `best`: whether the row belongs to its task's and method's best step size by RULE."""
    keys = ["task", "algorithm"]
    levels = pd.DataFrame(
        [(*key, level(group)) for key, group in frame.groupby([*keys, "lr"])], columns=[*keys, "lr", "level"]
    )
    best = levels.loc[levels.groupby(keys)["level"].idxmin(), [*keys, "lr"]].assign(best=True)
    return frame.merge(best, how="left", on=[*keys, "lr"]).assign(best=lambda merged: merged["best"].eq(True))
