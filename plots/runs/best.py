"""Which step size a method is shown with."""

from __future__ import annotations

import numpy as np
import pandas as pd

from plots.runs.columns import higher_is_better, in_words
from plots.runs.seeds import repeated


def usual_rule(frame: pd.DataFrame) -> str:
    """What `mark_usual` goes by on one task, in words."""
    metric = usual_metric(frame)
    return rule(metric, repeated(frame)) if metric else "the step sizes it was given, none of them selected"


def rule(metric: str = "grad_norm", seeds: bool = False) -> str:
    """What `mark_best` goes by, in words; `seeds` says that there are several."""
    means = " and over seeds" if seeds else ""
    return (
        f"the step size with the lowest geometric mean of the {in_words(metric)} over the last tenth of the rounds"
        f"{means}"
    )


def usual_metric(frame: pd.DataFrame) -> str | None:
    """What one task's step sizes are selected by where nothing else is said: of networks, which have test data, the
    training loss, as in the figures of images; else the gradient norm, as in those of logistic regression. None where
    neither is measured."""
    first = ("train_loss", "grad_norm") if "test_loss" in frame and frame["test_loss"].notna().any() else ()
    names = (*first, "grad_norm", "train_loss")
    return next((name for name in names if name in frame and frame[name].notna().any()), None)


def mark_usual(frame: pd.DataFrame) -> pd.DataFrame:
    """As `mark_best`, every task by its `usual_metric`; where it has none, only a method's one step size is best."""
    marked = []
    for _, rows in frame.groupby("task", sort=False):
        metric = usual_metric(rows)
        alone = rows.groupby("algorithm")["lr"].transform("nunique") == 1
        marked.append(mark_best(rows, metric) if metric else rows.assign(best=alone))
    return pd.concat(marked)


def level(frame: pd.DataFrame, metric: str = "grad_norm", begin: float = 0.9, end: float = 1.0) -> float:
    """Geometric mean of a metric over the rounds in (begin, end] as shares of the last one; NaN where none is there.

    A mean of logarithms, so that a curve that oscillates over decades is not judged by where it happens to end.
    """
    rounds = frame["round"] / frame["round"].max()
    values = frame.loc[(rounds > begin) & (rounds <= end), metric].to_numpy(dtype=float)
    return float(np.exp(np.log(np.maximum(values, np.finfo(float).tiny)).mean())) if len(values) else float("nan")


def mark_best(frame: pd.DataFrame, metric: str = "grad_norm") -> pd.DataFrame:
    """The frame with a column `best`: whether the row belongs to its task's and method's best step size by `rule`.

    A step size that did not come to a level at the last round in every seed of its method, because it diverged or was
    not run there, stands behind all that did; of equals the smallest is best.
    """
    if higher_is_better(metric):
        raise ValueError(f"select: {metric}: step sizes are selected by a metric of which less is better")
    if metric not in frame:
        raise ValueError(f"select: {metric}: no run has this metric")
    keys = ["task", "algorithm"]
    best = []
    for key, rows in frame.groupby(keys):
        done = rows[rows.groupby(["lr", "seed"])["round"].transform("max") == rows["round"].max()]
        levels = {trial: level(some, metric) for trial, some in done.groupby(["lr", "seed"])}
        ranks = np.log(pd.Series(levels).unstack()).mean(axis=1, skipna=False)
        best.append((*key, ranks.fillna(np.inf).idxmin(), True))
    chosen = pd.DataFrame(best, columns=[*keys, "lr", "best"])
    return frame.merge(chosen, how="left", on=[*keys, "lr"]).assign(best=lambda merged: merged["best"].eq(True))
