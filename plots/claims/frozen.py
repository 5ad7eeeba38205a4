"""Checks of methods that change their rule during the run: what becomes of the level that they had reached by then.

A check looks at one task's curves, one per method, and returns a verdict with the numbers it rests on.
"""

import pandas as pd

from plots.claims.checks import Curves, Finding, as_times, decide, of_all
from plots.runs.best import level


def ends_above(curves: Curves, subjects: list[str], since: float, factor: float) -> Finding:
    """Whether each subject's gradient norm ends at more than `factor` times the level that it had reached at `since`,
    a share of the rounds.

    Levels are geometric means: over the last tenth of the rounds, and over the last tenth of those up to `since`.
    Measured: for each subject the ratio.
    """
    ratios = [_change(curves[subject], since) for subject in subjects]
    verdicts = [decide(ratio > factor, ratio) for ratio in ratios]
    return Finding(of_all(verdicts), _in_words(subjects, ratios, factor))


def ends_below(curves: Curves, subjects: list[str], since: float, factor: float) -> Finding:
    """Whether each subject's gradient norm ends at less than one part in `factor` of the level that it had reached at
    `since`, a share of the rounds.

    Levels are geometric means: over the last tenth of the rounds, and over the last tenth of those up to `since`.
    Measured: for each subject the ratio.
    """
    ratios = [_change(curves[subject], since) for subject in subjects]
    verdicts = [decide(ratio < 1 / factor, ratio) for ratio in ratios]
    return Finding(of_all(verdicts), _in_words(subjects, ratios, 1 / factor))


def _change(curve: pd.DataFrame, since: float) -> float:
    """The gradient norm at the end over that at `since`."""
    return level(curve) / level(curve, begin=0.9 * since, end=since)


def _in_words(subjects: list[str], ratios: list[float], threshold: float) -> str:
    ends = zip(subjects, ratios, strict=True)
    return "; ".join(f"{subject} ends at {as_times(ratio, threshold)}" for subject, ratio in ends)
