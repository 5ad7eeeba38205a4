"""Checks at equal budgets: what methods have reached for the same bits or epochs, and what the same place costs.

A check looks at one task's curves, one per method, and returns a verdict with the numbers it rests on.
"""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from plots.claims.checks import (
    FAILS,
    HOLDS,
    NOT_DECIDABLE,
    Curves,
    Finding,
    as_percent,
    as_times,
    cut_short,
    decide,
    of_all,
)
from plots.runs.best import level
from plots.runs.columns import higher_is_better, sign
from plots.runs.seeds import geometric_mean


def ahead_at_equal(
    curves: Curves,
    subject: str,
    others: list[str],
    share: float,
    metric: str = "grad_norm",
    axis: str = "bits",
    since: int = 1,
) -> Finding:
    """Whether, of the budgets (values of `axis`: bits, epoch or round) at which the subject was evaluated, its
    metric is better than each other's at `share` or more.

    Evaluations before round `since` are left out, of all methods: those of networks whose batch-norm statistics have
    not settled yet; so are those where nothing has been spent. A method's metric at a budget is that of its last
    evaluation within it, and budgets are shared from the other's first evaluation to all that it spends. Where the
    subject has no value (NaN) it is not better. Not decidable where its curve ends before the last round of its run;
    nor, unless the claim fails by another, where an other's does, has no value at a shared budget, or fewer than two
    are shared. Measured, for each other: the share and of how many shared budgets, and the subject's final metric as
    a multiple of the other's (of accuracies both), final meaning the geometric mean over the last tenth of the
    rounds.
    """
    if short := cut_short(curves, [subject]):
        return Finding(NOT_DECIDABLE, short)
    mine, shares, texts = _spent(curves[subject], axis, metric, since), [], []
    for other in others:
        if short := cut_short(curves, [other]):
            texts.append(short)
            continue
        theirs = _spent(curves[other], axis, metric, since)
        both = pd.merge_asof(mine, theirs, on=axis, suffixes=("", "_other"))
        both = both[both[axis].between(theirs[axis].min(), theirs[axis].max())]
        blank = int(both[f"{metric}_other"].isna().sum())
        if len(both) < 2 or blank:
            few = f"{'one' if len(both) else 'no'} budget shared with {other}"
            texts.append(few if len(both) < 2 else f"{other} has no value at {blank} of {len(both)} budgets")
            continue
        shares.append((sign(metric) * both[metric] < sign(metric) * both[f"{metric}_other"]).mean())
        ends = level(curves[subject], metric), level(curves[other], metric)
        end = f"{ends[0]:.3g} against {ends[1]:.3g}" if higher_is_better(metric) else as_times(ends[0] / ends[1])
        texts.append(f"{as_percent(shares[-1], share)} of {len(both)}, ends at {end}")
    ahead = all(part >= share for part in shares)
    is_open = not others or len(shares) < len(others)
    return Finding(NOT_DECIDABLE if ahead and is_open else decide(ahead), "; ".join(texts))


def alike_early(
    curves: Curves,
    subject: str,
    other: str,
    slower: str,
    metric: str,
    axis: str,
    until: float,
    within: float,
    share: float = 0.9,
    since: int = 0,
) -> Finding:
    """Whether early, in the first `until` (a share) of what the subject spends on `axis`, subject and other are alike
    and `slower` is behind both.

    Budgets are those at which the subject was evaluated after the start, as far as both others go on; the others'
    metrics there are interpolated between their evaluations, the start included, so that a method that has not come
    to its first evaluation counts with its way there. With `since`, evaluations before that round are left out, of
    all methods, the start too: those of networks whose batch-norm statistics have not settled yet. Alike: the
    geometric mean over budgets of other's over subject's lies within a factor of `within` of 1. Behind: worse than
    both at `share` or more of the budgets. Fails where the subject has no value (NaN) at such a budget; not decidable
    where the others have none at one, fewer than two are shared, or a curve ends before the last round of its run.
    Measured: that mean, that share, and the rounds of the subject that the budgets are of.
    """
    if short := cut_short(curves, [subject, other, slower]):
        return Finding(NOT_DECIDABLE, short)
    mine, *rivals = (curves[name][curves[name]["round"] >= since] for name in (subject, other, slower))
    if mine.empty or any(rival.empty for rival in rivals):
        return Finding(NOT_DECIDABLE, f"nothing was evaluated from round {since} on")
    begin = max(rival[axis].min() for rival in rivals)
    end = min(until * mine[axis].max(), *(rival[axis].max() for rival in rivals))
    early = mine[(mine[axis] > 0) & (mine[axis] >= begin) & (mine[axis] <= end)]
    if len(early) < 2:
        return Finding(NOT_DECIDABLE, f"{'one' if len(early) else 'no'} early budget shared")
    ours = early[metric].to_numpy(dtype=float)
    alike, behind = (np.interp(early[axis], rival[axis], rival[metric].to_numpy(dtype=float)) for rival in rivals)
    blank = [int(np.isnan(values).sum()) for values in (alike, behind, ours)]
    if any(blank):
        who = next(name for name, some in zip((other, slower, subject), blank, strict=True) if some)
        verdict = NOT_DECIDABLE if any(blank[:2]) else FAILS
        return Finding(verdict, f"{who} has no value at {next(filter(None, blank))} of {len(ours)} budgets")
    ratio = float(geometric_mean(alike / ours))
    lagging = (sign(metric) * behind > np.maximum(sign(metric) * ours, sign(metric) * alike)).mean()
    where = f"{len(ours)} budgets, rounds {early['round'].min():g} to {early['round'].max():g}"
    near = as_times(ratio, within, 1 / within)
    text = f"{other} at {near}, {slower} behind at {as_percent(lagging, share)} of {where}"
    return Finding(decide(1 / within <= ratio <= within and lagging >= share, ratio), text)


def fewer_bits(
    curves: Curves, subject: str, reference: str, metrics: list[str], times: float, within: float, alike: float
) -> Finding:
    """Whether the reference needs at least `times` the subject's bits, up to a factor of `within`, to the same level
    of every metric: the best that both reach.

    Bits are those at the first evaluation at that level or beyond; the range in parentheses is what the ratio may be
    if either got there just after its evaluation before. The claim fails where a whole range lies below times/within,
    or where the reference gets further than the subject ever does, by more than a factor of `alike` in a loss or an
    error rate (1 − accuracy), for less than times/within of all that the subject spends. It holds where every range
    lies above that and the subject's best and its end, the geometric mean over the last tenth of the rounds, are the
    reference's or better, up to that factor: on the way to a level that the other leaves far behind, or that one does
    not stay at, fewer bits are those of shorter messages, not of a method that gets as far. It is otherwise not
    decidable, as it is of a level that one of them has at the start, where a curve ends before the last round of its
    run, and for what has no ratios: a loss below 0, an accuracy above 1. Measured: for each metric the level, the
    ratio of bits, that of rounds, and the bests and ends of both where these are not alike.
    """
    if short := cut_short(curves, [subject, reference]):
        return Finding(NOT_DECIDABLE, short)
    least = times / within
    verdicts, texts = [], []
    for metric in metrics:
        mine, theirs = (_way(curves[name], metric) for name in (subject, reference))
        target = float(np.max([mine["badness"].min(), theirs["badness"].min()]))
        if math.isnan(target):
            verdicts.append(NOT_DECIDABLE)
            texts.append(f"{metric}: not measured in both")
            continue
        bests = [sign(metric) * way["badness"].min() for way in (mine, theirs)]
        if max(bests) > 1 if higher_is_better(metric) else min(bests) < 0:
            verdicts.append(NOT_DECIDABLE)
            texts.append(f"{metric} {bests[0]:.3g} and {bests[1]:.3g}: no share, and no loss with a ratio")
            continue
        place = f"{metric} {sign(metric) * target:.3g}"
        (mine_before, mine_there), (theirs_before, theirs_there) = (_reached(way, target) for way in (mine, theirs))
        ends = [level(curves[name], metric) for name in (subject, reference)]
        is_alike = all(_gets_as_far(metric, own, other, alike) for own, other in (bests, ends))
        beyond = _beyond(theirs, metric, bests[0], alike) / mine["bits"].max()  # NaN where there is no such
        if not mine_there["bits"] or not theirs_there["bits"]:
            verdict, text = NOT_DECIDABLE, f"{place}: reached at the start"
        else:
            low = theirs_before["bits"] / mine_there["bits"]
            high = theirs_there["bits"] / mine_before["bits"] if mine_before["bits"] else math.inf
            bits, rounds = (theirs_there[axis] / mine_there[axis] for axis in ("bits", "round"))
            verdict = FAILS if high < least else HOLDS if low >= least and is_alike else NOT_DECIDABLE
            text = f"{place}: {as_times(bits, least)} the bits ({_range(low, high, least)}), "
            text += f"{as_times(rounds)} the rounds"
        verdicts.append(FAILS if beyond < least else verdict)
        if not is_alike:
            best, end = (_against(metric, own, other, alike) for own, other in (bests, ends))
            text += f", not alike: best {best}, ends {end}"
        if beyond < least:
            text += f", further on at most {as_times(beyond, least)}"
        texts.append(text)
    return Finding(of_all(verdicts), "; ".join(texts))


def fewer_bits_to(
    curves: Curves, subject: str, reference: str, metric: str, level: float, axis: str = "bits", times: float = 1.0
) -> Finding:
    """Whether the reference needs more than `times` what the subject needs on `axis` (bits, or those of a direction)
    until the metric is at the level or beyond.

    Counted is what was spent at the first evaluation there, and, where rounds lie between it and the one before, what
    was spent at that as well: the need lies between the two, and the claim holds or fails where it does so wherever.
    Who is never seen there needs more than all that it spent: the claim holds where that of the reference is `times`
    the subject's need or more, and fails where the reference's need is at most `times` that of the subject. It is not
    decidable otherwise, nor of a level that both have at the start, nor where the metric of one was never a number.
    Measured: what each needs, or spends without getting there.
    """
    for name in (subject, reference):
        if curves[name][metric].isna().all():
            return Finding(NOT_DECIDABLE, f"{name} has no value")
    (mine_least, mine, is_there), (theirs_least, theirs, are_there) = (
        _needed(curves[name], metric, level, axis) for name in (subject, reference)
    )
    text = _amounts(mine, is_there, theirs, are_there, times)
    if is_there and are_there:
        if not mine and not theirs:
            return Finding(NOT_DECIDABLE, text)
        if theirs_least > times * mine or (theirs > theirs_least == times * mine):
            return Finding(HOLDS, text)
        if theirs <= times * mine_least:
            return Finding(FAILS, text)
        return Finding(NOT_DECIDABLE, f"{text}, nearer than evaluations are")
    if is_there and theirs >= times * mine:
        return Finding(HOLDS, text)
    return Finding(FAILS if are_there and theirs <= times * mine else NOT_DECIDABLE, text)


def _needed(frame: pd.DataFrame, metric: str, level: float, axis: str) -> tuple[float, float, bool]:
    """What a curve spent until it is at a level or beyond, at least and at most, or in all; and whether it gets
    there. Both are the same where it was evaluated in the round before."""
    there = (sign(metric) * frame[metric] <= sign(metric) * level).to_numpy()
    if not there.any():
        return float(frame[axis].max()), float(frame[axis].max()), False
    first = int(there.argmax())
    before = first if first == 0 or frame["round"].iloc[first] - frame["round"].iloc[first - 1] <= 1 else first - 1
    return float(frame[axis].iloc[before]), float(frame[axis].iloc[first]), True


def _amounts(mine: float, is_there: bool, theirs: float, are_there: bool, times: float) -> str:
    """Both in words, of three digits or as many more as it takes for the one to lie on the same side of `times` the
    other."""
    side = np.sign(theirs - times * mine)
    own, other = _apart(mine, theirs, lambda mine, theirs: np.sign(theirs - times * mine) == side)
    own, other = (text.replace("e+0", "e").replace("e+", "e") for text in (own, other))
    return f"{'more than ' * (not is_there)}{own} against {'more than ' * (not are_there)}{other}"


def _apart(mine: float, theirs: float, is_so: Callable[[float, float], bool]) -> tuple[str, str]:
    """Both in three digits, or as many more as it takes for what is so of the numbers to be so of what is said."""
    own, other = f"{mine:.3g}", f"{theirs:.3g}"
    for digits in range(4, 17):
        if is_so(float(own), float(other)):
            break
        own, other = f"{mine:.{digits}g}", f"{theirs:.{digits}g}"
    return own, other


def _spent(frame: pd.DataFrame, axis: str, metric: str, since: int) -> pd.DataFrame:
    """Axis and metric from a round on, and where something has been spent: methods start alike and for nothing."""
    return frame.loc[(frame[axis] > 0) & (frame["round"] >= since), [axis, metric]].astype(float)


def _way(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Bits and rounds of a curve, and its metric turned so that less is better."""
    return frame[["bits", "round"]].astype(float).assign(badness=sign(metric) * frame[metric].astype(float))


def _reached(way: pd.DataFrame, target: float) -> tuple[pd.Series, pd.Series]:
    """The last evaluation before the first at the target or beyond, and that one; both the same at the start."""
    first = int((way["badness"] <= target).to_numpy().argmax())
    return way.iloc[max(first - 1, 0)], way.iloc[first]


def _gets_as_far(metric: str, mine: float, theirs: float, alike: float) -> bool:
    """Whether one is the other or better, up to a factor: of a loss itself, of an accuracy of what it lacks of 1."""
    if higher_is_better(metric):
        mine, theirs = 1 - mine, 1 - theirs
    return mine <= alike * theirs


def _beyond(way: pd.DataFrame, metric: str, best: float, alike: float) -> float:
    """The bits after which a curve is first further than a best, by more than a factor; NaN where it never is."""
    further = [
        not math.isnan(value) and not _gets_as_far(metric, best, sign(metric) * value, alike)
        for value in way["badness"]
    ]
    return float(way.loc[further, "bits"].min())


def _against(metric: str, mine: float, theirs: float, alike: float) -> str:
    """Both in words, of three digits or as many more as it takes for one to be as far as the other, or not."""
    if math.isnan(mine) or math.isnan(theirs):
        return " against ".join("–" if math.isnan(value) else f"{value:.3g}" for value in (mine, theirs))
    is_as_far = _gets_as_far(metric, mine, theirs, alike)
    said = _apart(mine, theirs, lambda mine, theirs: _gets_as_far(metric, mine, theirs, alike) == is_as_far)
    return " against ".join(said)


def _range(low: float, high: float, threshold: float) -> str:
    """In words where an end is open: one of the two was there at its first evaluation."""
    least, most = as_times(low, threshold), as_times(high, threshold)
    if math.isinf(high):
        return f"at least {least}" if low else "both at their first evaluation"
    return f"{least} to {most}" if low else f"at most {most}"
