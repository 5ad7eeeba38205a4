"""Checks of seconds: what methods take on modelled networks, and what rounds took on measured ones.

A check looks at one panel's curves over bandwidth, one per method, and returns a verdict with the numbers it rests
on.
"""

from plots.claims.checks import FAILS, NOT_DECIDABLE, Curves, Finding, as_times, decide


def times_faster(curves: Curves, subject: str, reference: str, times: float, low: float, high: float) -> Finding:
    """Whether on some link of `low` to `high` Mbit/s the subject gets to the level at least `times` faster than the
    reference, each by its fastest topology.

    Seconds are means over seeds. Fails where the reference alone gets there; not decidable where it does not.
    Measured: the least and the greatest ratio on such links.
    """
    mine, theirs = (curves[name].groupby("bandwidth")["seconds_to_level"].min() for name in (subject, reference))
    if mine.isna().all() and theirs.notna().any():
        return Finding(FAILS, f"{subject} does not reach the level")
    ratios = (theirs / mine).loc[low:high]
    if ratios.empty:
        return Finding(NOT_DECIDABLE, f"no bandwidth from {low:g} to {high:g} Mbit/s is modelled")
    if ratios.isna().any():
        return Finding(NOT_DECIDABLE, "the level is not reached")
    spread = " to ".join(as_times(ratio, times) for ratio in (ratios.min(), ratios.max()))
    return Finding(decide(ratios.max() >= times), spread)


def as_measured(curves: Curves, within: float) -> Finding:
    """Whether every modelled round takes what was measured, up to a share `within` of the measured seconds.

    Not decidable where nothing was measured that is modelled. Measured: the least and the greatest ratio of modelled
    to measured seconds, and how many rounds are within.
    """
    ratios = [ratio for curve in curves.values() for ratio in curve["modelled"] / curve["seconds_of_round"]]
    ratios = [ratio for ratio in ratios if ratio == ratio]  # what is no protocol of ours has no model
    if not ratios:
        return Finding(NOT_DECIDABLE, "not measured")
    near = sum(abs(ratio - 1) <= within for ratio in ratios)
    least, most = (as_times(ratio, 1 - within, 1 + within) for ratio in (min(ratios), max(ratios)))
    spread = f"{least} to {most}, {near} of {len(ratios)} within {100 * within:g} %"
    return Finding(decide(near == len(ratios)), spread)


OF_MEASURED = (as_measured.__name__,)
"""Those about measured rounds; the others are about modelled times."""
