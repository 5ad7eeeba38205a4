"""What a paper claims, held against measured curves.

A check looks at one task's curves, one per method, and returns a verdict with the numbers it rests on. Which methods
and which thresholds a claim is about stands in conf/figure/*.yaml; a claim is checked once with every method's best
step size and once for each step size that all methods share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from plots.selection import level

HOLDS, FAILS, NOT_DECIDABLE = "holds", "fails", "not decidable"

DESCRIPTION = ("number", "statement", "check", "negated")
"""Keys of a configured claim that are not options of its check. A `negated` claim holds where its check fails."""

ROLES = ("subject", "reference", "subjects", "others")
"""Options of checks that name methods."""

Curves = Mapping[str, pd.DataFrame]
"""By algorithm: the rows of one trial in order of rounds."""


@dataclass(frozen=True)
class Finding:
    """A verdict and the measured numbers, in words, that it rests on."""

    verdict: str
    measured: str


def reaches_level(curves: Curves, subject: str, reference: str, within: float) -> Finding:
    """Whether the subject's final gradient norm is at most `within` times the reference's after equal rounds.

    Final means the geometric mean over the last tenth of the rounds. Measured: the ratio.
    """
    ratio = level(curves[subject]) / level(curves[reference])
    return Finding(_verdict(ratio <= within, ratio), _times(ratio))


def below_at_equal_bits(curves: Curves, subject: str, others: list[str], share: float) -> Finding:
    """Whether, of the bit budgets at which the subject was evaluated, it is below each other at `share` or more.

    A method's gradient norm at a budget is that of its last evaluation within it. Measured, for each other: the
    share, and the subject's final gradient norm as a multiple of the other's.
    """
    mine = curves[subject].query("bits > 0")[["bits", "grad_norm"]]
    shares, texts = [], []
    for other in others:
        theirs = curves[other].query("bits > 0")[["bits", "grad_norm"]]
        both = pd.merge_asof(mine, theirs, on="bits", suffixes=("", "_other")).dropna()
        both = both[both["bits"] <= theirs["bits"].max()]
        if both.empty:
            return Finding(NOT_DECIDABLE, f"no budget shared with {other}")
        shares.append((both["grad_norm"] < both["grad_norm_other"]).mean())
        end = level(curves[subject]) / level(curves[other])
        texts.append(f"{100 * shares[-1]:.0f} %, ends at {_times(end)}")
    return Finding(_verdict(min(shares) >= share), "; ".join(texts))


def stops_early(curves: Curves, subjects: list[str], reference: str, factor: float) -> Finding:
    """Whether each subject's gradient norm falls by less than `factor` in the second half of the rounds and ends
    more than `factor` above the reference's.

    Measured, for each subject: by how much it falls, and its end as a multiple of the reference's.
    """
    texts, numbers, stopped = [], [], True
    for subject in subjects:
        fall = level(curves[subject], begin=0.4, end=0.5) / level(curves[subject])
        above = level(curves[subject]) / level(curves[reference])
        stopped &= fall < factor and above > factor
        numbers += [fall, above]
        texts.append(f"falls {_times(fall)}, ends at {_times(above)}")
    return Finding(_verdict(stopped, *numbers), "; ".join(texts))


def one_bit_a_coordinate(curves: Curves, subjects: list[str]) -> Finding:
    """Whether every round of every subject is counted as 32 + d bits each way, and its payload is ⌈d/8⌉ bytes of
    signs and one 8-byte scale each way (the runs are in float64).

    Measured: bits and payload bytes of a message, of the first subject that fails or of the last.
    """
    for subject in subjects:
        frame = curves[subject]
        d = frame["d"].iloc[0]
        exact = (
            (frame["bits_up"] == frame["round"] * (32 + d))
            & (frame["bits_down"] == frame["round"] * (32 + d))
            & (frame["payload_bytes"] == frame["round"] * 2 * (-(-d // 8) + 8))
        ).all()
        if not exact:
            break
    last = frame.iloc[-1]
    bits, size = last["bits_up"] / last["round"], last["payload_bytes"] / last["round"] / 2
    return Finding(_verdict(exact), f"d = {d}: {bits:g} bits, {size:g} bytes")


def second_moment_grows(curves: Curves, subject: str, reference: str, factor: float) -> Finding:
    """Whether the subject's Σ v̂ ends at more than `factor` times the reference's, which has no compression error.

    Measured: their ratio. Where each has its own best step size, the ratio also holds the difference between these.
    """
    last = {name: curves[name]["second_moment"].iloc[-1] for name in (subject, reference)}
    ratio = last[subject] / last[reference]
    return Finding(_verdict(ratio > factor, ratio), _times(ratio))


def error_vanishes(curves: Curves, subject: str, factor: float) -> Finding:
    """Whether ‖g̃ − mean_i g_i‖ falls by `factor` from the first to the last tenth of the rounds.

    The claim is about convergent gradient sequences: where the subject's own gradient norm falls by less than
    `factor`, nothing is decided. Measured: by how much the error and the gradient norm fall.
    """
    frame = curves[subject]
    error = level(frame, "signal_error", 0, 0.1) / level(frame, "signal_error")
    gradient = level(frame, "grad_norm", 0, 0.1) / level(frame, "grad_norm")
    text = f"error falls {_times(error)}, gradient {_times(gradient)}"
    return Finding(_verdict(error >= factor, error) if gradient >= factor else NOT_DECIDABLE, text)


def falls_with_rounds(curves: Curves, subject: str, exponent: float, tolerance: float) -> Finding:
    """Whether min_t ‖∇f‖² of the subject falls at least as T^exponent, up to `tolerance` in the exponent.

    Measured: the least-squares slope of log min_t ‖∇f‖² over log T, one point a run of T rounds (at least three).
    """
    frame = curves[subject]
    if len(frame) < 3:
        return Finding(NOT_DECIDABLE, f"{len(frame)} runs")
    slope = np.polyfit(np.log(frame["round"]), np.log(frame["min_grad_norm_squared"]), 1)[0]
    return Finding(_verdict(slope <= exponent + tolerance, slope), f"T^{slope:.2f}, {len(frame)} runs")


CHECKS: dict[str, Callable[..., Finding]] = {
    check.__name__: check
    for check in (
        reaches_level,
        below_at_equal_bits,
        stops_early,
        one_bit_a_coordinate,
        second_moment_grows,
        error_vanishes,
        falls_with_rounds,
    )
}
"""By the name a figure's configuration calls them."""


def judge(frame: pd.DataFrame, claims: list[dict]) -> pd.DataFrame:
    """Every claim on every task, with best and with equal step sizes.

    `frame` is that of `plots.results.read` after `mark_best`. Returns columns number, statement, task, step_size
    ("best" or the number), verdict, measured.
    """
    findings = []
    for claim in claims:
        options = {key: value for key, value in claim.items() if key not in DESCRIPTION}
        for task, rows in frame.groupby("task", sort=False):
            by_lr = dict(list(rows.groupby("lr")))
            shared = [lr for lr, some in by_lr.items() if some["algorithm"].nunique() == rows["algorithm"].nunique()]
            settings = {"best": rows[rows["best"]]} | {f"{lr:.12g}": by_lr[lr] for lr in shared}
            for setting, chosen in settings.items():
                curves = {name: curve.sort_values("round") for name, curve in chosen.groupby("algorithm")}
                finding = CHECKS[claim["check"]](curves, **options)
                verdict = {HOLDS: FAILS, FAILS: HOLDS}.get(finding.verdict) if claim.get("negated") else None
                findings.append(
                    {
                        "number": claim["number"],
                        "statement": claim["statement"],
                        "task": task,
                        "step_size": setting,
                        "verdict": verdict or finding.verdict,
                        "measured": finding.measured,
                    }
                )
    return pd.DataFrame(findings, columns=["number", "statement", "task", "step_size", "verdict", "measured"])


def _verdict(true: bool, *numbers: float) -> str:
    """What a comparison came to; nothing where one of the numbers it rests on is missing."""
    if any(math.isnan(number) for number in numbers):
        return NOT_DECIDABLE
    return HOLDS if true else FAILS


def _times(ratio: float) -> str:
    """Two digits: 0.54×, 1900×, 4.2e14×; a dash where there is no number."""
    if math.isnan(ratio):
        return "–"
    return f"{float(f'{ratio:.2g}'):g}×".replace("e+", "e")
