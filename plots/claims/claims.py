"""Claims of papers, judged by measured curves.

A claim's methods and thresholds stand in conf/figure/*.yaml. Each claim is judged under every protocol: with every
method's published step size, with every method's best, and with each step size that all methods share. Each judgement
is made in every seed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Discriminator
from pydantic.dataclasses import dataclass

from plots.claims import budgets, levels, seconds, theory
from plots.claims.check import OPTIONS, Check
from plots.claims.finding import NOT_DECIDABLE, Finding, as_times, cut_short
from plots.runs.seeds import geometric_mean

AnyCheck = Annotated[
    levels.ReachesLevel
    | levels.ClearlyAhead
    | levels.EndsAlike
    | levels.StopsEarly
    | levels.EndsAbove
    | levels.EndsBelow
    | theory.OneBitACoordinate
    | theory.SecondMomentGrows
    | theory.ErrorVanishes
    | theory.FallsWithRounds
    | budgets.AheadAtEqual
    | budgets.AlikeEarly
    | budgets.FewerBits
    | budgets.FewerBitsTo
    | seconds.TimesFaster
    | seconds.AsMeasured,
    Discriminator("name"),
]

CHECKS: dict[str, type[Check]] = {check.name: check for check in AnyCheck.__origin__.__args__}  # type: ignore
"""By the name that conf/figure calls them."""

PAPERS, BEST, MEASURED = "paper's", "best", "measured"
"""Protocols with a name, in column `step_size` of findings. Others are named by their step size."""

COLUMNS = ["number", "statement", "task", "step_size", "verdict", "measured"]
"""Of findings."""


@dataclass(frozen=True, kw_only=True, config=OPTIONS)
class Claim:
    """A statement that a check decides. A negated claim holds where its check fails."""

    number: Annotated[str, BeforeValidator(str)]
    statement: str
    check: AnyCheck
    negated: bool = False


def judge(frame: pd.DataFrame, claims: Sequence[Claim]) -> pd.DataFrame:
    """Every claim on the tasks that it is about, under every protocol.

    Args:
        frame: the rows of `mark_best`, with a column `published` where the figure has published step sizes.

    Returns:
        A row for each claim, task and protocol, with COLUMNS.
    """
    found = [finding for claim in claims for finding in _findings(claim, frame)]
    return pd.DataFrame(found, columns=COLUMNS)


def _findings(claim: Claim, frame: pd.DataFrame) -> list[tuple]:
    about = claim.number, claim.statement
    found = [
        (*about, task, setting, *_in_every_seed(chosen, claim))
        for task, rows in frame.groupby("task", sort=False)
        if _is_about(claim.check, rows)
        for setting, chosen in protocols(rows).items()
    ]
    if found:
        return found
    names = sorted(claim.check.named_methods | claim.check.named_metrics)
    return [(*about, "–", BEST, NOT_DECIDABLE, f"no task has all of: {', '.join(names)}")]


def _is_about(check: Check, rows: pd.DataFrame) -> bool:
    is_measured = all(name in rows and rows[name].notna().any() for name in check.named_metrics)
    return is_measured and check.named_methods <= set(rows["algorithm"])


def protocols(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of one task by protocol, each with one step size a method.

    Protocols are the paper's where every method has a published step size, the best ones, and every step size that
    all methods share. One with the same rows as an earlier one is left out, beside the paper's and where only best
    step sizes were run.
    """
    methods = rows["algorithm"].nunique()
    named = {PAPERS: rows[rows["published"]]} if "published" in rows else {}
    named[BEST] = rows[rows["best"]]
    equal = {f"{lr:.12g}": some for lr, some in rows.groupby("lr")}
    found: dict[str, pd.DataFrame] = {}
    for setting, some in (named | equal).items():
        has_all = setting == BEST or some["algorithm"].nunique() == methods
        compares = PAPERS in found or rows["best"].all()
        is_repeated = compares and any(some.index.equals(other.index) for other in found.values())
        if has_all and not is_repeated:
            found[setting] = some
    return found


def _in_every_seed(rows: pd.DataFrame, claim: Claim) -> tuple[str, str]:
    findings = {}
    for seed, some in rows.groupby("seed"):
        curves = {str(name): curve.sort_values("round") for name, curve in some.groupby("algorithm")}
        if claim.check.named_methods <= set(curves):
            findings[seed] = in_one_seed(curves, claim)
    if not findings:
        return NOT_DECIDABLE, "no seed that all its methods have"
    found, seeds = _together(findings), rows["seed"].nunique()
    lacking = f"; {len(findings)} of {seeds} seeds, which all its methods have" if len(findings) < seeds else ""
    return found.verdict, found.measured + lacking


def in_one_seed(curves: Mapping[str, pd.DataFrame], claim: Claim) -> Finding:
    """The finding on one trial a method."""
    if short := cut_short(curves, sorted(claim.check.to_the_end)):
        return Finding(NOT_DECIDABLE, short)
    finding = claim.check.judge(curves)
    return finding.negated() if claim.negated else finding


def _together(findings: Mapping[Hashable, Finding]) -> Finding:
    """One finding from those of all seeds. It holds, or fails, where it does so in every seed.

    Measured are a ratio's geometric mean with least and greatest, or other numbers seed by seed. Where seeds
    disagree, each is named with its verdict.
    """
    verdicts, texts, ratios = (
        [getattr(finding, name) for finding in findings.values()] for name in ("verdict", "measured", "ratio")
    )
    if len(set(verdicts)) > 1:
        each = zip(findings, verdicts, texts, strict=True)
        return Finding(NOT_DECIDABLE, "; ".join(f"seed {seed} {verdict}: {text}" for seed, verdict, text in each))
    first = next(iter(findings.values()))
    if len(findings) == 1:
        return first
    if not pd.isna(ratios).any():
        numbers = geometric_mean(np.array(ratios)), min(ratios), max(ratios)
        mean, low, high = (as_times(float(number), first.threshold) for number in numbers)
        return replace(first, measured=f"{mean} ({low} to {high}, {len(ratios)} seeds)")
    if len(set(texts)) == 1:
        return replace(first, measured=f"{texts[0]} ({len(texts)} seeds alike)")
    return replace(
        first, measured="; ".join(f"seed {seed}: {text}" for seed, text in zip(findings, texts, strict=True))
    )
