"""Columns that a figure needs and no single row holds."""

import math

import pandas as pd

from common.errors import DataError

_SHADES = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8b000")  # viridis, its yellow darkened for paper
_MARKERS = "osD^v"


def ratio(frame: pd.DataFrame, metric: str, over: str) -> pd.DataFrame:
    """Adds `<metric>_ratio`: the metric over that of the method `over` at the same task, batch, step size, seed and
    round."""
    keys = ["task", "batch_size", "lr", "seed", "round"]
    reference = frame.loc[frame["algorithm"] == over, [*keys, metric]]
    merged = frame.merge(reference, how="left", on=keys, suffixes=("", "_reference"))
    merged[f"{metric}_ratio"] = merged[metric] / merged.pop(f"{metric}_reference")
    return merged


def least_so_far(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The metric after a round is the least of all rounds up to it that were evaluated, of each run and trial."""
    least = frame.sort_values("round", kind="stable").groupby(["run", "trial"])[metric].cummin()
    return frame.assign(**{metric: least})


def minimum_over_rounds(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a run and trial: its last, with `grad_norm` the least over all rounds that were evaluated, and
    `min_grad_norm_squared` its square. Runs of one method that differ in length become one curve over `round`, those
    that differ in batches one over `batch_size`. A run that diverged has no such minimum."""
    last = frame.loc[frame.groupby(["run", "trial"], sort=False)["round"].idxmax()].copy()
    least = frame.groupby(["run", "trial"])["grad_norm"].min()
    last["grad_norm"] = [least[run, trial] for run, trial in zip(last["run"], last["trial"], strict=True)]
    last["min_grad_norm_squared"] = (last["grad_norm"] ** 2).where(last["round"] >= last["planned_rounds"])
    return last


def relative_error(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds `relative_error`: how far what the replicas step by is from the mean of what workers wanted to send,
    ‖g̃ − g‖₂, as a multiple of ‖g‖₂. At 1 the error is as large as what it is about.

    Raises DataError where rows have the error alone, as runs of earlier code left them.
    """
    frame = frame.assign(**{name: frame.get(name, math.nan) for name in ("signal_error", "mean_norm")})
    older = frame.loc[frame["signal_error"].notna() & frame["mean_norm"].isna(), "run"]
    if len(older):
        raise DataError(f"{', '.join(older.unique())}: rows without mean_norm, of earlier code; run these anew")
    return frame.assign(relative_error=frame["signal_error"] / frame["mean_norm"])


def by_step_size(frame: pd.DataFrame, algorithm: str) -> pd.DataFrame:
    """The rows of one algorithm alone, every step size as a method of its own, in colours from small to large."""
    rows = frame[frame["algorithm"] == algorithm].copy()
    rows["algorithm"] = [f"{algorithm} {lr:g}" for lr in rows["lr"]]
    rows["label"] = [f"α = {lr:g}" for lr in rows["lr"]]
    places = rows["lr"].rank(method="dense").astype(int) - 1
    rows["color"] = [_SHADES[place % len(_SHADES)] for place in places]
    rows["marker"] = [_MARKERS[place % len(_MARKERS)] for place in places]
    return rows.sort_values("lr", kind="stable")


DERIVATIONS = {
    derivation.__name__: derivation
    for derivation in (ratio, least_so_far, minimum_over_rounds, relative_error, by_step_size)
}
"""By the name a figure's configuration calls them."""
