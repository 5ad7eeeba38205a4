"""Checks of the levels that methods reach, of modelled seconds to a level, and of measured rounds."""

from __future__ import annotations

import math
from typing import Any, Literal

import pandas as pd

from plots.claims import check
from plots.claims.check import Check, Curves, Finding
from plots.runs.best import level
from plots.runs.columns import sign


class ReachesLevel(Check):
    """Whether the subject's final gradient norm is at most `within` times the reference's.

    Final means the geometric mean over the last tenth of the rounds. Measured: the ratio.
    """

    needs = frozenset({"grad_norm"})
    name: Literal["reaches_level"] = "reaches_level"
    subject: check.Method
    reference: check.Method
    within: check.Positive

    def judge(self, curves: Curves) -> Finding:
        ratio = level(curves[self.subject]) / level(curves[self.reference])
        return check.ratio_finding(ratio <= self.within, ratio, self.within)


class ClearlyAhead(Check):
    """Whether the other's final metric is at least `factor` times the subject's. For accuracies it is the other way
    round.

    Final means the geometric mean over the last tenth of the rounds. Measured: the ratio.
    """

    name: Literal["clearly_ahead"] = "clearly_ahead"
    subject: check.Method
    other: check.Method
    metric: check.Metric
    factor: check.Positive

    def judge(self, curves: Curves) -> Finding:
        mine, theirs = (level(curves[name], self.metric) for name in (self.subject, self.other))
        ratio = mine / theirs if sign(self.metric) < 0 else theirs / mine
        return check.ratio_finding(ratio >= self.factor, ratio, self.factor)


class EndsAlike(Check):
    """Whether the final metrics of both lie within a factor of each other.

    Final means the geometric mean over the last tenth of the rounds. Measured: the subject's over the other's.
    """

    name: Literal["ends_alike"] = "ends_alike"
    subject: check.Method
    other: check.Method
    metric: check.Metric
    factor: check.Positive

    def judge(self, curves: Curves) -> Finding:
        ratio = level(curves[self.subject], self.metric) / level(curves[self.other], self.metric)
        least, most = 1 / self.factor, self.factor
        return check.ratio_finding(least <= ratio <= most, ratio, most, least)


class StopsEarly(Check):
    """Whether each subject's gradient norm falls by less than `factor` in the second half of the rounds and ends
    more than `factor` above the reference's.

    Levels are geometric means over tenths of the rounds. The fall is from the fifth tenth to the last, and ends are
    levels of the last. Measured, for each subject: its fall, and its end as a multiple of the reference's.
    """

    needs = frozenset({"grad_norm"})
    name: Literal["stops_early"] = "stops_early"
    subjects: check.Methods
    reference: check.Method
    factor: check.Positive

    def judge(self, curves: Curves) -> Finding:
        findings = []
        for subject in self.subjects:
            fall = level(curves[subject], begin=0.4, end=0.5) / level(curves[subject])
            above = level(curves[subject]) / level(curves[self.reference])
            text = f"falls {check.format_ratio(fall, self.factor)}, ends at {check.format_ratio(above, self.factor)}"
            findings.append(Finding(check.decide(fall < self.factor and above > self.factor, fall, above), text))
        return check.combine_findings(findings)


class ChangesSince(Check):
    """Whether each subject's gradient norm ends at more than `above` times, or less than `below` times, its level at
    `since`. `since` is a share of the rounds.

    Levels are geometric means: over the last tenth of the rounds, and over the last tenth of those up to `since`.
    Measured: for each subject the ratio.
    """

    needs = frozenset({"grad_norm"})
    name: Literal["changes_since"] = "changes_since"
    subjects: check.Methods
    since: check.Share
    above: check.Positive | None = None
    below: check.Positive | None = None

    def model_post_init(self, context: Any, /) -> None:
        if (self.above is None) == (self.below is None):
            raise ValueError("changes_since: give either above or below")

    def judge(self, curves: Curves) -> Finding:
        low, high, findings = self.above or 0.0, self.below or math.inf, []
        for subject in self.subjects:
            ratio = level(curves[subject]) / level(curves[subject], begin=0.9 * self.since, end=self.since)
            text = f"{subject} ends at {check.format_ratio(ratio, low or high)}"
            findings.append(Finding(check.decide(low < ratio < high, ratio), text))
        return check.combine_findings(findings)


class TimesFaster(Check):
    """Whether on some link of `low` to `high` Mbit/s the subject gets to the level at least `times` faster than the
    reference, each by its fastest topology.

    Seconds are means over seeds. The claim fails where only the reference gets there, and is not decidable where the
    reference does not. Measured: the least and the greatest ratio on such links.
    """

    name: Literal["times_faster"] = "times_faster"
    subject: check.Method
    reference: check.Method
    times: check.Positive
    low: float
    high: float

    def judge(self, curves: Curves) -> Finding:
        mine, theirs = (
            curves[name].groupby("bandwidth")["seconds_to_level"].min() for name in (self.subject, self.reference)
        )
        if mine.isna().all() and theirs.notna().any():
            return Finding(check.FAILS, f"{self.subject} does not reach the level")
        ratios = (theirs / mine).loc[self.low : self.high]
        if ratios.empty:
            return Finding(check.NOT_DECIDABLE, f"no bandwidth from {self.low:g} to {self.high:g} Mbit/s is modelled")
        if ratios.isna().any():
            return Finding(check.NOT_DECIDABLE, "the level is not reached")
        spread = " to ".join(check.format_ratio(ratio, self.times) for ratio in (ratios.min(), ratios.max()))
        return Finding(check.decide(ratios.max() >= self.times), spread)


class AsMeasured(Check):
    """Whether every modelled round takes as long as measured, up to a share `within` of the measured seconds.

    Not decidable where no modelled round was measured. Measured: the least and the greatest ratio of modelled to
    measured seconds, and how many rounds are within.
    """

    name: Literal["as_measured"] = "as_measured"
    within: check.Positive

    def judge(self, curves: Curves) -> Finding:
        rounds = pd.concat(curves.values())
        ratios = (rounds["modelled"] / rounds["seconds_of_round"]).dropna()  # NaN: a protocol without a model
        if ratios.empty:
            return Finding(check.NOT_DECIDABLE, "not measured")
        near = ((ratios - 1).abs() <= self.within).sum()
        least, most = (
            check.format_ratio(ratio, 1 - self.within, 1 + self.within) for ratio in (ratios.min(), ratios.max())
        )
        spread = f"{least} to {most}, {near} of {len(ratios)} within {100 * self.within:g} %"
        return Finding(check.decide(near == len(ratios)), spread)
