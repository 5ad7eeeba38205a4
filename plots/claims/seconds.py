"""Checks of seconds: modelled time to a level over bandwidth, and measured rounds beside modelled ones."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from plots.claims.check import OPTIONS, Check, Method, Positive
from plots.claims.finding import FAILS, NOT_DECIDABLE, Curves, Finding, as_times, decide


@dataclass(frozen=True, kw_only=True, config=OPTIONS)
class TimesFaster(Check):
    """Whether on some link of `low` to `high` Mbit/s the subject gets to the level at least `times` faster than the
    reference, each by its fastest topology.

    Seconds are means over seeds. The claim fails where only the reference gets there, and is not decidable where the
    reference does not. Measured: the least and the greatest ratio on such links.
    """

    name: Literal["times_faster"] = "times_faster"
    subject: Method
    reference: Method
    times: Positive
    low: float
    high: float

    def judge(self, curves: Curves) -> Finding:
        mine, theirs = (
            curves[name].groupby("bandwidth")["seconds_to_level"].min() for name in (self.subject, self.reference)
        )
        if mine.isna().all() and theirs.notna().any():
            return Finding(FAILS, f"{self.subject} does not reach the level")
        ratios = (theirs / mine).loc[self.low : self.high]
        if ratios.empty:
            return Finding(NOT_DECIDABLE, f"no bandwidth from {self.low:g} to {self.high:g} Mbit/s is modelled")
        if ratios.isna().any():
            return Finding(NOT_DECIDABLE, "the level is not reached")
        spread = " to ".join(as_times(ratio, self.times) for ratio in (ratios.min(), ratios.max()))
        return Finding(decide(ratios.max() >= self.times), spread)


@dataclass(frozen=True, kw_only=True, config=OPTIONS)
class AsMeasured(Check):
    """Whether every modelled round takes as long as measured, up to a share `within` of the measured seconds.

    Not decidable where no modelled round was measured. Measured: the least and the greatest ratio of modelled to
    measured seconds, and how many rounds are within.
    """

    name: Literal["as_measured"] = "as_measured"
    within: Positive

    def judge(self, curves: Curves) -> Finding:
        ratios = [ratio for curve in curves.values() for ratio in curve["modelled"] / curve["seconds_of_round"]]
        ratios = [ratio for ratio in ratios if ratio == ratio]  # NaN: a protocol without a model
        if not ratios:
            return Finding(NOT_DECIDABLE, "not measured")
        near = sum(abs(ratio - 1) <= self.within for ratio in ratios)
        least, most = (as_times(ratio, 1 - self.within, 1 + self.within) for ratio in (min(ratios), max(ratios)))
        spread = f"{least} to {most}, {near} of {len(ratios)} within {100 * self.within:g} %"
        return Finding(decide(near == len(ratios)), spread)
