"""Checks of single claims: how low methods get, what a message costs, and what compression errors do.

A check looks at one task's curves, one per method, and returns a verdict with the numbers it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from plots.runs.best import level
from plots.runs.columns import higher_is_better
from plots.runs.seeds import geometric_mean

HOLDS, FAILS, NOT_DECIDABLE = "holds", "fails", "not decidable"

Curves = Mapping[str, pd.DataFrame]
"""By algorithm: the rows of one trial in order of rounds."""


@dataclass(frozen=True)
class Finding:
    """A verdict and the measured numbers, in words, that it rests on; where these are a single ratio, `ratio` and the
    `threshold` that it was held against."""

    verdict: str
    measured: str
    ratio: float | None = None
    threshold: float = math.nan

    def negated(self) -> Finding:
        """The same numbers about the opposite claim."""
        return replace(self, verdict={HOLDS: FAILS, FAILS: HOLDS}.get(self.verdict, self.verdict))


def decide(true: bool, *numbers: float) -> str:
    """What a comparison came to; nothing where one of the numbers it rests on is missing."""
    if any(math.isnan(number) for number in numbers):
        return NOT_DECIDABLE
    return HOLDS if true else FAILS


def of_all(verdicts: Collection[str]) -> str:
    """The verdict of a claim about several: it fails where it fails of one, whatever became of the others."""
    return next((one for one in (FAILS, NOT_DECIDABLE) if one in verdicts), HOLDS)


def as_times(ratio: float, *thresholds: float) -> str:
    """Two digits: 0.54×, 1900×, 4.2e14×; three within a tenth of one of the thresholds, and more where it takes them
    to lie on the ratio's side of it; a dash where there is no number."""
    if math.isnan(ratio):
        return "–"
    if any(abs(ratio / threshold - 1) < 0.1 for threshold in thresholds):
        return f"{_apart(ratio, thresholds, '#.{}g', 3)}×"
    return f"{float(f'{ratio:.2g}'):g}×".replace("e+", "e")


def as_percent(share: float, threshold: float) -> str:
    """A whole number, with decimals where it takes them to lie on the share's side of the threshold."""
    return f"{_apart(100 * share, [100 * threshold], '.{}f', 0)} %"


def _apart(number: float, thresholds: Iterable[float], form: str, digits: int) -> str:
    """The number with so many digits, or the fewest more with which no threshold lies between it and what is said."""
    for count in range(digits, 17):
        text = format(number, form.format(count))
        if all(np.sign(float(text) - one) == np.sign(number - one) for one in thresholds):
            return text
    return repr(number)


def cut_short(curves: Curves, names: Iterable[str]) -> str:
    """Which of some curves, in words, ends before the last round of its run; empty where none does.

    How many rounds that is stands in a column `planned_rounds`; without one it is as many as the longest curve has.
    """
    longest = max(frame["round"].max() for frame in curves.values())
    for name in names:
        frame = curves[name]
        last, rounds = frame["round"].max(), frame.get("planned_rounds", pd.Series(longest)).max()
        if last < rounds:
            return f"{name} ends at round {last:g} of {rounds:g}"
    return ""


def reaches_level(curves: Curves, subject: str, reference: str, within: float) -> Finding:
    """Whether the subject's final gradient norm is at most `within` times the reference's.

    Final means the geometric mean over the last tenth of the rounds. Measured: the ratio.
    """
    ratio = level(curves[subject]) / level(curves[reference])
    return Finding(decide(ratio <= within, ratio), as_times(ratio, within), ratio, within)


def clearly_ahead(curves: Curves, subject: str, other: str, metric: str, factor: float) -> Finding:
    """Whether the other's final metric is at least `factor` times the subject's (where higher is better, the
    subject's that of the other).

    Final means the geometric mean over the last tenth of the rounds. Measured: the ratio.
    """
    mine, theirs = level(curves[subject], metric), level(curves[other], metric)
    ratio = mine / theirs if higher_is_better(metric) else theirs / mine
    return Finding(decide(ratio >= factor, ratio), as_times(ratio, factor), ratio, factor)


def ends_alike(curves: Curves, subject: str, other: str, metric: str, factor: float) -> Finding:
    """Whether the final metrics of both lie within a factor of each other.

    Final means the geometric mean over the last tenth of the rounds. Measured: the subject's over the other's.
    """
    ratio = level(curves[subject], metric) / level(curves[other], metric)
    return Finding(decide(1 / factor <= ratio <= factor, ratio), as_times(ratio, factor, 1 / factor), ratio, factor)


def stops_early(curves: Curves, subjects: list[str], reference: str, factor: float) -> Finding:
    """Whether each subject's gradient norm falls by less than `factor` in the second half of the rounds and ends
    more than `factor` above the reference's.

    Levels are geometric means over tenths of the rounds: the fall is from the fifth tenth to the last, ends are of
    the last. Measured, for each subject: by how much it falls, and its end as a multiple of the reference's.
    """
    if not subjects:
        raise ValueError("stops_early: subjects: of whom?")
    texts, numbers = [], []
    for subject in subjects:
        fall = level(curves[subject], begin=0.4, end=0.5) / level(curves[subject])
        above = level(curves[subject]) / level(curves[reference])
        numbers.append((fall, above))
        texts.append(f"falls {as_times(fall, factor)}, ends at {as_times(above, factor)}")
    stopped = [decide(fall < factor and above > factor, fall, above) for fall, above in numbers]
    return Finding(of_all(stopped), "; ".join(texts))


def one_bit_a_coordinate(curves: Curves, subjects: list[str]) -> Finding:
    """Whether every round of every subject is counted as 32 + d bits each way, and its payload is ⌈d/8⌉ bytes of
    signs and one 8-byte scale each way (the runs are in float64).

    Not decidable without a subject, or where one has no row after round 0. Measured: bits and payload bytes of a
    message; of the first subject that fails, where it first does, or of the first.
    """
    findings = [_counted(curves[subject], subject) for subject in subjects] or [Finding(NOT_DECIDABLE, "no subject")]
    return min(findings, key=lambda finding: (FAILS, NOT_DECIDABLE, HOLDS).index(finding.verdict))


def second_moment_grows(curves: Curves, subject: str, reference: str, factor: float) -> Finding:
    """Whether the subject's Σ v̂ ends at more than `factor` times the reference's, which has no compression error.

    Ends are the last evaluations. Measured: their ratio. Where each has its own best step size, the ratio also holds
    the difference between these.
    """
    last = {name: curves[name]["second_moment"].iloc[-1] for name in (subject, reference)}
    ratio = last[subject] / last[reference]
    return Finding(decide(ratio > factor, ratio), as_times(ratio, factor), ratio, factor)


def error_vanishes(curves: Curves, subject: str, factor: float) -> Finding:
    """Whether ‖g̃ − mean_i g_i‖ falls by `factor` from the first tenth of the rounds to the last, or to zero.

    Levels are geometric means, without round 0, and of the last tenth without single zeros: the error is zero where
    all are. The claim is about convergent gradient sequences: where the subject's own gradient norm falls by less
    than `factor`, nothing is decided; nor where there was no error to begin with. Measured: by how much the error and
    the gradient norm fall.
    """
    frame = curves[subject]
    last = frame.loc[frame["round"] > 0.9 * frame["round"].max(), "signal_error"].to_numpy(dtype=float)
    begin, end = level(frame, "signal_error", 0, 0.1), float(geometric_mean(last[last != 0])) if last.any() else 0.0
    error = begin / end if end else math.inf
    if not begin > 2 * np.finfo(float).tiny:  # which is what a level makes of zeros, up to rounding
        error = math.nan
    gradient = level(frame, "grad_norm", 0, 0.1) / level(frame, "grad_norm")
    text = f"error falls {as_times(error, factor)}, gradient {as_times(gradient, factor)}"
    return Finding(decide(error >= factor, error) if gradient >= factor else NOT_DECIDABLE, text)


def falls_with_rounds(curves: Curves, subject: str, exponent: float, tolerance: float) -> Finding:
    """Whether min_t ‖∇f‖² of the subject falls at least as T^exponent, up to `tolerance` in the exponent.

    Measured: the least-squares slope of log min_t ‖∇f‖² over log T, one point a run of T rounds (at least three).
    """
    frame = curves[subject].dropna(subset="min_grad_norm_squared")  # which runs that diverged do not have
    if len(frame) < 3:
        return Finding(NOT_DECIDABLE, f"{len(frame)} runs")
    slope = np.polyfit(np.log(frame["round"]), np.log(frame["min_grad_norm_squared"]), 1)[0]
    power = _apart(slope, [exponent + tolerance], ".{}f", 2)
    return Finding(decide(slope <= exponent + tolerance, slope), f"T^{power}, {len(frame)} runs")


def _counted(frame: pd.DataFrame, subject: str) -> Finding:
    frame = frame[frame["round"] > 0]
    if frame.empty:
        return Finding(NOT_DECIDABLE, "no row after round 0")
    d, names = frame["d"].iloc[0], ["bits_up", "bits_down", "payload_bytes"]
    wanted = np.array([32 + d, 32 + d, 2 * (-(-d // 8) + 8)])
    a_round = frame[names].div(frame["round"], axis=0)
    exact = (frame[names] == np.outer(frame["round"], wanted)).all(axis=1).to_numpy()
    if exact.all():
        return Finding(HOLDS, f"d = {d}: {wanted[0]} bits, {wanted[2] // 2} bytes")
    up, down, size = a_round.iloc[int(exact.argmin())]
    place = f"{subject}, d = {d}, up to round {frame['round'].iloc[int(exact.argmin())]:g}"
    return Finding(FAILS, f"{place}: {up:.12g} bits up, {down:.12g} down, {size / 2:.12g} bytes a message")
