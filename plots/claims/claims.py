"""What a paper claims, held against measured curves.

Which methods and which thresholds a claim is about stands in conf/figure/*.yaml; a claim is checked once with every
method's best step size and once for each step size that all methods share, each time in every seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from plots.claims import budgets, checks
from plots.claims.finding import FAILS, HOLDS, NOT_DECIDABLE, Finding, together
from plots.figure.spec import Claim

__all__ = ["CHECKS", "FAILS", "HOLDS", "NOT_DECIDABLE", "ROLES", "judge"]

ROLES = ("subject", "reference", "subjects", "others", "other", "slower")
"""Options of checks that name methods."""

CHECKS: dict[str, Callable[..., Finding]] = {
    check.__name__: check
    for check in (
        checks.reaches_level,
        checks.clearly_ahead,
        checks.stops_early,
        checks.one_bit_a_coordinate,
        checks.second_moment_grows,
        checks.error_vanishes,
        checks.falls_with_rounds,
        budgets.ahead_at_equal,
        budgets.below_at_equal_bits,
        budgets.alike_early,
        budgets.fewer_bits,
    )
}
"""By the name a figure's configuration calls them."""


def judge(frame: pd.DataFrame, claims: Sequence[Claim]) -> pd.DataFrame:
    """Every claim on every task, with best and with equal step sizes.

    `frame` is that of `plots.runs.read.read` after `mark_best`. Returns columns number, statement, task, step_size
    ("best" or the number), verdict, measured.
    """
    findings = []
    for claim in claims:
        for task, rows in frame.groupby("task", sort=False):
            by_lr = dict(list(rows.groupby("lr")))
            shared = [lr for lr, some in by_lr.items() if some["algorithm"].nunique() == rows["algorithm"].nunique()]
            settings = {"best": rows[rows["best"]]} | {f"{lr:.12g}": by_lr[lr] for lr in shared}
            for setting, chosen in settings.items():
                finding = _in_every_seed(chosen, claim)
                findings.append(
                    {
                        "number": claim.number,
                        "statement": claim.statement,
                        "task": task,
                        "step_size": setting,
                        "verdict": finding.verdict,
                        "measured": finding.measured,
                    }
                )
    return pd.DataFrame(findings, columns=["number", "statement", "task", "step_size", "verdict", "measured"])


def _in_every_seed(rows: pd.DataFrame, claim: Claim) -> Finding:
    """One claim on one task, with one step size a method, in each seed that all methods have."""
    findings = {}
    for seed, some in rows.groupby("seed"):
        curves = {name: curve.sort_values("round") for name, curve in some.groupby("algorithm")}
        if len(curves) == rows["algorithm"].nunique():
            finding = CHECKS[claim.check](curves, **claim.options)
            findings[seed] = finding.negated() if claim.negated else finding
    return together(findings)
