"""One curve from several seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd


def repeated(frame: pd.DataFrame) -> bool:
    """Whether some method was run on some task with more than one seed."""
    return bool((frame.groupby(["task", "algorithm"])["seed"].nunique() > 1).any())


def in_order(values: pd.Series) -> str:
    """The different numbers of a column in words."""
    return ", ".join(f"{value:.12g}" for value in sorted(values.unique()))


def geometric_mean(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """exp of the mean logarithm; 0 where a value is 0, NaN where one is missing."""
    with np.errstate(divide="ignore"):
        return np.exp(np.log(values).mean(axis))


def over_seeds(curve: pd.DataFrame, x: str, y: str, geometric: bool) -> pd.DataFrame:
    """Columns x, mean, low and high of one method, in order of rounds: y's mean over seeds, its least and greatest.

    With one seed all three are its curve. Where one seed has no value, none of them has. Raises ValueError where
    seeds were not evaluated at the same rounds with the same x: a mean would then compare different places.
    """
    parts = [rows.sort_values("round") for _, rows in curve.groupby("seed")]
    first = parts[0]
    for part in parts[1:]:
        if part["round"].tolist() != first["round"].tolist() or part[x].tolist() != first[x].tolist():
            seeds = " and ".join(str(some["seed"].iloc[0]) for some in (first, part))
            raise ValueError(
                f"{first['algorithm'].iloc[0]} on {first['task'].iloc[0]}: seeds {seeds} were not evaluated at the "
                f"same rounds and {x}, so there is no mean over them; run them with the same rounds and eval_every"
            )
    values = np.stack([part[y].to_numpy(dtype=float) for part in parts])
    if len(parts) == 1:
        return pd.DataFrame({"x": first[x].to_numpy(), **dict.fromkeys(("mean", "low", "high"), values[0])})
    mean = geometric_mean(values, 0) if geometric else values.mean(0)
    return pd.DataFrame({"x": first[x].to_numpy(), "mean": mean, "low": values.min(0), "high": values.max(0)})
