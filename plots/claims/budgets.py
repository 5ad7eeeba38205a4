"""Checks at equal budgets: the level that methods reach for the same bits, and the bits of the same level."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pandas as pd

from plots.claims import check
from plots.claims.check import Check, Curves, Finding
from plots.runs.best import level
from plots.runs.columns import Axis, higher_is_better, sign
from plots.runs.seeds import geometric_mean


class AheadAtEqual(Check):
    """Whether the subject's metric is better than each other method's at `share` or more of the shared budgets.

    Budgets are the values of `axis` (bits, epoch or round) at the subject's evaluations. Those between the other's
    first evaluation and its last are shared. At a budget, a method has the metric of its last evaluation within it.
    All methods leave out evaluations before round `since`, while batch-norm statistics settle, and evaluations with
    nothing spent. A missing value (NaN) of the subject is not better. The claim is not decidable if the subject's
    curve ends before the last round of its run. Unless it fails against another method, it is also not decidable if
    another's curve ends early, has no value at a shared budget, or shares fewer than two. Measured, for each other
    method: the share and number of shared budgets, and the subject's final metric as a multiple of the other's (for
    accuracies both). Final means the geometric mean over the last tenth of the rounds.
    """

    name: Literal["ahead_at_equal"] = "ahead_at_equal"
    subject: check.Method
    others: check.Methods
    share: check.Share
    metric: check.Metric = "grad_norm"
    axis: Axis = "bits"
    since: int = 1

    @property
    def must_finish(self) -> set[str]:
        return {self.subject}

    def judge(self, curves: Curves) -> Finding:
        return check.combine_findings([self._judge_against(other, curves) for other in self.others])

    def _judge_against(self, other: str, curves: Curves) -> Finding:
        if short := check.explain_early_end(curves, [other]):
            return Finding(check.NOT_DECIDABLE, short)
        mine, theirs = self._spending(curves[self.subject]), self._spending(curves[other])
        both = pd.merge_asof(mine, theirs, on=self.axis, suffixes=("", "_other"))
        both = both[both[self.axis].between(theirs[self.axis].min(), theirs[self.axis].max())]
        ours, others = both[self.metric], both[f"{self.metric}_other"]
        if len(both) < 2:
            return Finding(check.NOT_DECIDABLE, f"{'one' if len(both) else 'no'} budget shared with {other}")
        if blank := int(others.isna().sum()):
            return Finding(check.NOT_DECIDABLE, f"{other} has no value at {blank} of {len(both)} budgets")
        share = (sign(self.metric) * ours < sign(self.metric) * others).mean()
        ends = [level(curves[name], self.metric) for name in (self.subject, other)]
        end = f"{ends[0]:.3g} against {ends[1]:.3g}"
        if not higher_is_better(self.metric):
            end = check.format_ratio(ends[0] / ends[1])
        text = f"{check.format_percent(share, self.share)} of {len(both)}, ends at {end}"
        return Finding(check.decide(share >= self.share), text)

    def _spending(self, frame: pd.DataFrame) -> pd.DataFrame:
        is_there = (frame[self.axis] > 0) & (frame["round"] >= self.since)
        return frame.loc[is_there, [self.axis, self.metric]].astype(float)


class AlikeEarly(Check):
    """Whether subject and other are alike, and `slower` is behind both, in the first `until` (a share) of the
    subject's spending on `axis`.

    Budgets are the subject's evaluations after the start, as far as both others go. There the others' metrics are
    interpolated between their evaluations, from the start on, so a method before its first evaluation counts with its
    way there. All methods leave out evaluations before round `since`, while batch-norm statistics settle, also the
    start. Alike: the geometric mean over budgets of the other's metric over the subject's lies within a factor of
    `within` of 1. Behind: worse than both at `share` or more of the budgets. The claim fails if the subject has no
    value (NaN) at such a budget. It is not decidable if the others have none at one, if fewer than two are shared, or
    if a curve ends before the last round of its run. Measured: that mean, that share, and the budgets' rounds.
    """

    name: Literal["alike_early"] = "alike_early"
    subject: check.Method
    other: check.Method
    slower: check.Method
    metric: check.Metric
    axis: Axis
    until: check.Share
    within: check.Positive
    share: check.Share = 0.9
    since: int = 0

    def judge(self, curves: Curves) -> Finding:
        names = (self.subject, self.other, self.slower)
        mine, *rivals = (curves[name][curves[name]["round"] >= self.since] for name in names)
        if mine.empty or any(rival.empty for rival in rivals):
            return Finding(check.NOT_DECIDABLE, f"nothing was evaluated from round {self.since} on")
        begin = max(rival[self.axis].min() for rival in rivals)
        end = min(self.until * mine[self.axis].max(), *(rival[self.axis].max() for rival in rivals))
        early = mine[(mine[self.axis] > 0) & mine[self.axis].between(begin, end)]
        if len(early) < 2:
            return Finding(check.NOT_DECIDABLE, f"{'one' if len(early) else 'no'} early budget shared")
        ours = early[self.metric].to_numpy(dtype=float)
        alike, behind = (
            np.asarray(np.interp(early[self.axis], rival[self.axis], rival[self.metric].astype(float)))
            for rival in rivals
        )
        for name, values in ((self.other, alike), (self.slower, behind), (self.subject, ours)):
            if blank := int(np.isnan(values).sum()):
                verdict = check.FAILS if name == self.subject else check.NOT_DECIDABLE
                return Finding(verdict, f"{name} has no value at {blank} of {len(ours)} budgets")
        ratio = float(geometric_mean(alike / ours))
        toward = sign(self.metric)
        lagging = (toward * behind > np.maximum(toward * ours, toward * alike)).mean()
        where = f"{len(ours)} budgets, rounds {early['round'].min():g} to {early['round'].max():g}"
        near = check.format_ratio(ratio, self.within, 1 / self.within)
        text = (
            f"{self.other} at {near}, {self.slower} behind at {check.format_percent(lagging, self.share)} of {where}"
        )
        return Finding(check.decide(1 / self.within <= ratio <= self.within and lagging >= self.share, ratio), text)


class FewerBits(Check):
    """Whether the reference needs at least `times` the subject's bits, up to a factor of `within`, to the best level
    that both reach, in every metric.

    Bits are counted at the first evaluation at or beyond the level. The range in parentheses shows the ratio if
    either method got there just after its evaluation before. The claim holds if every range lies above times/within,
    and the subject's best and end are the reference's or better, up to a factor of `alike` in a loss or an error rate
    (1 − accuracy). The end is the geometric mean over the last tenth of the rounds. Without this second condition,
    shorter messages would win even if the method does not get as far. The claim fails if a whole range lies below
    times/within. It also fails if the reference gets further than the subject ever does, by more than `alike`, for
    less than times/within of all the subject's bits. Otherwise it is not decidable. It is also not decidable for a
    level that one of them has at the start, if a curve ends before the last round of its run, and for a loss below 0
    or an accuracy above 1, which have no ratios. Measured, for each metric: the level, the ratios of bits and of
    rounds, and the bests and ends of both if these are not alike.
    """

    name: Literal["fewer_bits"] = "fewer_bits"
    subject: check.Method
    reference: check.Method
    metrics: check.Metrics
    times: check.Positive
    within: check.Positive
    alike: check.Positive

    def judge(self, curves: Curves) -> Finding:
        mine, theirs = curves[self.subject], curves[self.reference]
        return check.combine_findings([self._judge_metric(metric, mine, theirs) for metric in self.metrics])

    def _judge_metric(self, metric: str, mine: pd.DataFrame, theirs: pd.DataFrame) -> Finding:
        toward, least = sign(metric), self.times / self.within
        bests = [toward * float((toward * curve[metric].astype(float)).min()) for curve in (mine, theirs)]
        if any(map(math.isnan, bests)):
            return Finding(check.NOT_DECIDABLE, f"{metric}: not measured in both")
        if max(bests) > 1 if higher_is_better(metric) else min(bests) < 0:
            pair = f"{metric} {bests[0]:.3g} and {bests[1]:.3g}"
            return Finding(check.NOT_DECIDABLE, f"{pair}: no share, and no loss with a ratio")
        ends = [level(curve, metric) for curve in (mine, theirs)]
        is_alike = all(_gets_as_far(metric, pair[0], pair[1], self.alike) for pair in (bests, ends))
        target = toward * max(toward * best for best in bests)
        verdict, text = self._verdict(_rows_at(mine, metric, target), _rows_at(theirs, metric, target), is_alike)
        text = f"{metric} {target:.3g}: {text}"
        if not is_alike:
            best, end = (_format_pair(metric, pair[0], pair[1], self.alike) for pair in (bests, ends))
            text += f", not alike: best {best}, ends {end}"
        beyond = [
            value == value and not _gets_as_far(metric, bests[0], value, self.alike) for value in theirs[metric]
        ]
        further = float(theirs.loc[beyond, "bits"].min()) / mine["bits"].max()  # NaN where the reference never is
        if further < least:
            return Finding(check.FAILS, f"{text}, further on at most {check.format_ratio(further, least)}")
        return Finding(verdict, text)

    def _verdict(self, mine: pd.DataFrame, theirs: pd.DataFrame, is_alike: bool) -> tuple[str, str]:
        """The verdict on the ratio of bits to the level, with its text, from rows of `_rows_at`."""
        (mine_before, mine_there), (theirs_before, theirs_there) = mine["bits"], theirs["bits"]
        if not mine_there or not theirs_there:
            return check.NOT_DECIDABLE, "reached at the start"
        least, ratio = self.times / self.within, theirs_there / mine_there
        low, high = theirs_before / mine_there, theirs_there / mine_before if mine_before else math.inf
        ends = check.format_ratio(low, least), check.format_ratio(high, least)
        if math.isinf(high):  # one of them was there at its first evaluation
            spread = f"at least {ends[0]}" if low else "both at their first evaluation"
        else:
            spread = " to ".join(ends) if low else f"at most {ends[1]}"
        rounds = check.format_ratio(theirs["round"].iloc[1] / mine["round"].iloc[1])
        text = f"{check.format_ratio(ratio, least)} the bits ({spread}), {rounds} the rounds"
        if high < least:
            return check.FAILS, text
        return check.HOLDS if low >= least and is_alike else check.NOT_DECIDABLE, text


class FewerBitsTo(Check):
    """Whether the reference needs more than `times` the subject's spending on `axis` (bits, up or down or both) until
    the metric is at the level or beyond.

    A method's need is its spending at its first evaluation there. If rounds lie between this evaluation and the one
    before, the need lies between the spending at the two. The claim holds, or fails, if it does so everywhere in
    these ranges. A method never seen there needs more than it spent. If this is the reference, the claim holds if it
    spent `times` the subject's need or more. If this is the subject, the claim fails if the reference's need is at
    most `times` the subject's spending. Otherwise it is not decidable, also for a level that both have at the start,
    and if one metric was never a number. Measured: the need of each, or its spending without getting there.
    """

    name: Literal["fewer_bits_to"] = "fewer_bits_to"
    subject: check.Method
    reference: check.Method
    metric: check.Metric
    level: float
    axis: Axis = "bits"
    times: check.Positive = 1.0

    def judge(self, curves: Curves) -> Finding:
        for name in (self.subject, self.reference):
            if curves[name][self.metric].isna().all():
                return Finding(check.NOT_DECIDABLE, f"{name} has no value")
        (mine_least, mine, got_there), (theirs_least, theirs, they_got_there) = (
            self._need(curves[name]) for name in (self.subject, self.reference)
        )
        most = self.times * mine
        text = self._in_words(mine, theirs, got_there, they_got_there)
        if not got_there:
            return Finding(check.FAILS if they_got_there and theirs <= most else check.NOT_DECIDABLE, text)
        if not they_got_there:
            return Finding(check.HOLDS if theirs >= most else check.NOT_DECIDABLE, text)
        if not mine and not theirs:
            return Finding(check.NOT_DECIDABLE, text)
        if theirs_least > most or theirs > theirs_least == most:
            return Finding(check.HOLDS, text)
        if theirs <= self.times * mine_least:
            return Finding(check.FAILS, text)
        return Finding(check.NOT_DECIDABLE, f"{text}, nearer than evaluations are")

    def _need(self, frame: pd.DataFrame) -> tuple[float, float, bool]:
        """The least and most that a curve spends to the level (all if it never gets there), and whether it does."""
        there = _rows_at(frame, self.metric, self.level)
        if there.empty:
            return frame[self.axis].max(), frame[self.axis].max(), False
        is_exact = there["round"].iloc[1] - there["round"].iloc[0] <= 1
        return there[self.axis].iloc[1 if is_exact else 0], there[self.axis].iloc[1], True

    def _in_words(self, mine: float, theirs: float, got_there: bool, they_got_there: bool) -> str:
        """Both needs as text, with enough digits to show which is more than `times` the other."""
        side = np.sign(theirs - self.times * mine)
        texts = check.format_all_distinct(
            [mine, theirs], lambda one, other: np.sign(other - self.times * one) == side
        )
        own, other = map(check.short_exponent, texts)
        return f"{'more than ' * (not got_there)}{own} against {'more than ' * (not they_got_there)}{other}"


def _rows_at(frame: pd.DataFrame, metric: str, target: float) -> pd.DataFrame:
    """The first evaluation at or beyond a level, after the one before it. A first evaluation there counts twice.

    No rows if the curve never gets there."""
    there = (sign(metric) * frame[metric] <= sign(metric) * target).to_numpy()
    first = int(there.argmax())
    return frame.iloc[[max(first - 1, 0), first] if there.any() else []]


def _gets_as_far(metric: str, mine: float, theirs: float, alike: float) -> bool:
    """Whether `mine` is as good as `theirs` or better, up to a factor in a loss or an error rate."""
    if higher_is_better(metric):
        mine, theirs = 1 - mine, 1 - theirs
    return mine <= alike * theirs


def _format_pair(metric: str, mine: float, theirs: float, alike: float) -> str:
    """Format both numbers with enough digits to show whether they are equally good."""
    if math.isnan(mine) or math.isnan(theirs):
        return " against ".join("–" if math.isnan(value) else f"{value:.3g}" for value in (mine, theirs))
    side = _gets_as_far(metric, mine, theirs, alike)
    texts = check.format_all_distinct(
        [mine, theirs], lambda one, other: _gets_as_far(metric, one, other, alike) == side
    )
    return " against ".join(texts)
