"""Checks of the theory: bits of a message, second moments, compression errors, rates."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pandas as pd

from plots.claims import check
from plots.claims.check import Check, Curves, Finding
from plots.runs.best import level
from plots.runs.seeds import geometric_mean


class OneBitACoordinate(Check):
    """Whether every round of every subject costs 32 + d bits each way, and its payload is ⌈d/8⌉ bytes of signs and
    one 8-byte scale each way (the runs are in float64).

    Not decidable without a row after round 0. Measured: bits and payload bytes of a message. If a subject fails,
    these come from the first failing row of the first failing subject.
    """

    name: Literal["one_bit_a_coordinate"] = "one_bit_a_coordinate"
    subjects: check.Methods

    def judge(self, curves: Curves) -> Finding:
        findings = [_count_bits(curves[subject], subject) for subject in self.subjects]
        return min(
            findings, key=lambda finding: (check.FAILS, check.NOT_DECIDABLE, check.HOLDS).index(finding.verdict)
        )


def _count_bits(frame: pd.DataFrame, subject: str) -> Finding:
    frame = frame[frame["round"] > 0]
    if frame.empty:
        return Finding(check.NOT_DECIDABLE, "no row after round 0")
    d, names = frame["d"].iloc[0], ["bits_up", "bits_down", "payload_bytes"]
    wanted = np.array([32 + d, 32 + d, 2 * (-(-d // 8) + 8)])
    exact = (frame[names] == np.outer(frame["round"], wanted)).all(axis=1).to_numpy()
    if exact.all():
        return Finding(check.HOLDS, f"d = {d}: {wanted[0]} bits, {wanted[2] // 2} bytes")
    first = frame.iloc[int(exact.argmin())]
    up, down, size = first[names] / first["round"]
    place = f"{subject}, d = {d}, up to round {first['round']:g}"
    return Finding(check.FAILS, f"{place}: {up:.12g} bits up, {down:.12g} down, {size / 2:.12g} bytes a message")


class SecondMomentGrows(Check):
    """Whether the subject's Σ v̂ ends at more than `factor` times the reference's, which has no compression error.

    Ends are the last evaluations. Measured: their ratio. At best step sizes the ratio also includes the effect of
    different step sizes.
    """

    needs = frozenset({"second_moment"})
    name: Literal["second_moment_grows"] = "second_moment_grows"
    subject: check.Method
    reference: check.Method
    factor: check.Positive

    def judge(self, curves: Curves) -> Finding:
        mine, theirs = (curves[name]["second_moment"].iloc[-1] for name in (self.subject, self.reference))
        ratio = mine / theirs
        return check.ratio_finding(ratio > self.factor, ratio, self.factor)


class ErrorVanishes(Check):
    """Whether ‖g̃ − mean_i g_i‖ falls by `factor` from the first tenth of the rounds to the last, or to zero.

    Levels are geometric means, without round 0. Single zeros in the last tenth are left out; the error is zero where
    all are. The claim is about gradients that converge: nothing is decided where the subject's own gradient norm
    falls by less than `factor`, nor where there was no error to begin with. Measured: by how much the error and the
    gradient norm fall.
    """

    needs = frozenset({"signal_error", "grad_norm"})
    name: Literal["error_vanishes"] = "error_vanishes"
    subject: check.Method
    factor: check.Positive

    def judge(self, curves: Curves) -> Finding:
        frame = curves[self.subject]
        begin = level(frame, "signal_error", 0, 0.1)
        last = frame.loc[frame["round"] > 0.9 * frame["round"].max(), "signal_error"].to_numpy(dtype=float)
        fall = begin / float(geometric_mean(last[last != 0])) if last.any() else math.inf
        if not begin > 2 * np.finfo(float).tiny:  # `level` returns this for zeros, up to rounding
            fall = math.nan
        gradient = level(frame, "grad_norm", 0, 0.1) / level(frame, "grad_norm")
        falls = (check.format_ratio(ratio, self.factor) for ratio in (fall, gradient))
        text = "error falls {}, gradient {}".format(*falls)
        verdict = check.decide(fall >= self.factor, fall) if gradient >= self.factor else check.NOT_DECIDABLE
        return Finding(verdict, text)


class FallsWithRounds(Check):
    """Whether min_t ‖∇f‖² of the subject falls at least as T^exponent, up to `tolerance` in the exponent.

    Measured: the least-squares slope of log min_t ‖∇f‖² over log T, with one point for each run of T rounds (at least
    three).
    """

    needs = frozenset({"min_grad_norm_squared"})
    name: Literal["falls_with_rounds"] = "falls_with_rounds"
    subject: check.Method
    exponent: float
    tolerance: float

    def judge(self, curves: Curves) -> Finding:
        frame = curves[self.subject].dropna(subset="min_grad_norm_squared")  # missing if a run diverged
        if len(frame) < 3:
            return Finding(check.NOT_DECIDABLE, f"{len(frame)} runs")
        slope = np.polyfit(np.log(frame["round"]), np.log(frame["min_grad_norm_squared"]), 1)[0]
        most = self.exponent + self.tolerance
        power = check.format_distinct(slope, [most], ".{}f", 2)
        return Finding(check.decide(slope <= most, slope), f"T^{power}, {len(frame)} runs")
