"""Columns of a figure that are derived from several rows."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import pandas as pd
from pydantic import Discriminator

from plots.runs.options import Options

_SHADES = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8b000")  # viridis, its yellow darkened for paper
_MARKERS = "osD^v"


class Ratio(Options):
    """Adds `<metric>_ratio`: the metric over that of `over`, at the same task, batch, step size, seed and round."""

    name: Literal["ratio"] = "ratio"
    metric: str
    over: str

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        keys = ["task", "batch_size", "lr", "seed", "round"]
        reference = frame.loc[frame["algorithm"] == self.over, [*keys, self.metric]]
        merged = frame.merge(reference, how="left", on=keys, suffixes=("", "_reference"))
        merged[f"{self.metric}_ratio"] = merged[self.metric] / merged.pop(f"{self.metric}_reference")
        return merged


class LeastSoFar(Options):
    """Replaces the metric by its least value so far, in each run and trial."""

    name: Literal["least_so_far"] = "least_so_far"
    metric: str

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        least = frame.sort_values("round", kind="stable").groupby(["run", "trial"])[self.metric].cummin()
        return frame.assign(**{self.metric: least})


class MinimumOverRounds(Options):
    """Keeps the last row of each run and trial, with `grad_norm` as the least over all evaluations.

    `min_grad_norm_squared` is its square, missing if the run diverged. Runs of one method with different lengths
    become one curve over `round`, and with different batches one over `batch_size`.
    """

    name: Literal["minimum_over_rounds"] = "minimum_over_rounds"

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        last = frame.loc[frame.groupby(["run", "trial"], sort=False)["round"].idxmax()].copy()
        least = frame.groupby(["run", "trial"])["grad_norm"].min()
        last["grad_norm"] = [least[run, trial] for run, trial in zip(last["run"], last["trial"], strict=True)]
        last["min_grad_norm_squared"] = (last["grad_norm"] ** 2).where(last["round"] >= last["planned_rounds"])
        return last


class RelativeError(Options):
    """Adds `relative_error`: ‖g̃ − g‖₂ over ‖g‖₂. The replicas step by g̃, and g is the workers' exact mean.

    At 1 the error is as large as the message.
    """

    name: Literal["relative_error"] = "relative_error"

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.assign(**{name: frame.get(name, math.nan) for name in ("signal_error", "mean_norm")})
        return frame.assign(relative_error=frame["signal_error"] / frame["mean_norm"])


class ByStepSize(Options):
    """Keeps the rows of one algorithm. Every step size becomes a method, coloured from small to large."""

    name: Literal["by_step_size"] = "by_step_size"
    algorithm: str

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame[frame["algorithm"] == self.algorithm].copy()
        rows["algorithm"] = [f"{self.algorithm} {lr:g}" for lr in rows["lr"]]
        rows["label"] = [f"α = {lr:g}" for lr in rows["lr"]]
        places = rows["lr"].rank(method="dense").astype(int) - 1
        rows["color"] = [_SHADES[place % len(_SHADES)] for place in places]
        rows["marker"] = [_MARKERS[place % len(_MARKERS)] for place in places]
        return rows.sort_values("lr", kind="stable")


Derivation = Annotated[
    Ratio | LeastSoFar | MinimumOverRounds | RelativeError | ByStepSize,
    Discriminator("name"),
]

DERIVATIONS = {kind.model_fields["name"].default: kind for kind in Derivation.__origin__.__args__}  # type: ignore
"""Derivations by their names in conf/figure."""
