"""Verdicts, and the measured numbers in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

HOLDS, FAILS, NOT_DECIDABLE = "holds", "fails", "not decidable"

Curves = Mapping[str, pd.DataFrame]
"""By algorithm: the rows of one trial in order of rounds."""


@dataclass(frozen=True)
class Finding:
    """A verdict and the measured numbers in words. Where these are one ratio: the ratio and its threshold."""

    verdict: str
    measured: str
    ratio: float | None = None
    threshold: float = math.inf

    def negated(self) -> Finding:
        """The same numbers about the opposite claim."""
        return replace(self, verdict={HOLDS: FAILS, FAILS: HOLDS}.get(self.verdict, self.verdict))


def decide(true: bool, *numbers: float) -> str:
    """The verdict of a comparison; not decidable where one of its numbers is NaN."""
    if any(math.isnan(number) for number in numbers):
        return NOT_DECIDABLE
    return HOLDS if true else FAILS


def of_all(verdicts: Collection[str]) -> str:
    """The verdict of a claim about several methods or metrics: it fails where it fails for one."""
    return next((one for one in (FAILS, NOT_DECIDABLE) if one in verdicts), HOLDS)


def as_times(ratio: float, *thresholds: float) -> str:
    """A ratio with two digits: 0.54×, 1900×, 4.2e14×; a dash for NaN.

    Within a tenth of a threshold it has three digits, or more until it reads as on the right side of the threshold.
    """
    if math.isnan(ratio):
        return "–"
    if any(abs(ratio / threshold - 1) < 0.1 for threshold in thresholds):
        return f"{distinct(ratio, thresholds, '#.{}g', 3)}×"
    return short_exponent(f"{float(f'{ratio:.2g}'):g}×")


def as_percent(share: float, threshold: float) -> str:
    """A whole number of percent, with decimals where these are needed to read on the right side of the threshold."""
    return f"{distinct(100 * share, [100 * threshold], '.{}f', 0)} %"


def distinct(number: float, thresholds: Iterable[float], form: str, digits: int) -> str:
    """The number with so many digits, or with more until it lies on the same side of every threshold as it is."""
    for count in range(digits, 17):
        text = format(number, form.format(count))
        if all(np.sign(float(text) - one) == np.sign(number - one) for one in thresholds):
            return text
    return repr(number)


def both_distinct(mine: float, theirs: float, is_so: Callable[[float, float], bool]) -> tuple[str, str]:
    """Two numbers with three digits, or with more until `is_so` is true of what is printed."""
    for digits in range(3, 17):
        texts = f"{mine:.{digits}g}", f"{theirs:.{digits}g}"
        if is_so(*map(float, texts)):
            return texts
    return repr(mine), repr(theirs)


def short_exponent(text: str) -> str:
    """1e+06 as 1e6."""
    return text.replace("e+0", "e").replace("e+", "e")


def cut_short(curves: Curves, names: Iterable[str]) -> str:
    """Which of these curves ends before its last planned round, in words; empty where none does.

    Without a column `planned_rounds`, the longest curve says how many rounds were planned.
    """
    longest = max(frame["round"].max() for frame in curves.values())
    for name in names:
        frame = curves[name]
        last, rounds = frame["round"].max(), frame.get("planned_rounds", pd.Series(longest)).max()
        if last < rounds:
            return f"{name} ends at round {last:g} of {rounds:g}"
    return ""
