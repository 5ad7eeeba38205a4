"""Columns that a figure needs and no single row holds."""

import pandas as pd


def second_moment_ratio(frame: pd.DataFrame, over: str) -> pd.DataFrame:
    """Adds `second_moment_ratio`: Σ v̂ over that of the algorithm `over` at the same task, step size, seed, round."""
    keys = ["task", "lr", "seed", "round"]
    reference = frame.loc[frame["algorithm"] == over, [*keys, "second_moment"]]
    merged = frame.merge(reference, how="left", on=keys, suffixes=("", "_reference"))
    merged["second_moment_ratio"] = merged["second_moment"] / merged.pop("second_moment_reference")
    return merged


def minimum_over_rounds(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a run and trial: its last, with `grad_norm` the least over all rounds that were evaluated, and
    `min_grad_norm_squared` its square. Runs of one method that differ in length become one curve over `round`."""
    last = frame.loc[frame.groupby(["run", "trial"], sort=False)["round"].idxmax()].copy()
    least = frame.groupby(["run", "trial"])["grad_norm"].min()
    last["grad_norm"] = [least[run, trial] for run, trial in zip(last["run"], last["trial"], strict=True)]
    last["min_grad_norm_squared"] = last["grad_norm"] ** 2
    return last


DERIVATIONS = {"second_moment_ratio": second_moment_ratio, "minimum_over_rounds": minimum_over_rounds}
"""By the name a figure's configuration calls them."""
