"""Claims of papers, judged by measured curves.

Methods and thresholds of claims are in conf/figure/*.yaml. Each claim is judged in every seed, under each protocol:
with every method's published step size, with every method's best, and with each step size that all methods share.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Discriminator

from plots.claims import budgets, levels, theory  # noqa: F401 (they define the checks)
from plots.claims.check import NOT_DECIDABLE, Check, Curves, Finding, explain_early_end, format_ratio
from plots.runs.options import Options
from plots.runs.seeds import geometric_mean

CHECKS: dict[str, type[Check]] = {check.model_fields["name"].default: check for check in Check.__subclasses__()}
"""Checks by their names in conf/figure."""

AnyCheck = Annotated[reduce(or_, CHECKS.values()), Discriminator("name")]

PAPERS, BEST, MEASURED = "paper's", "best", "measured"
"""Named protocols, in column `step_size` of findings. Others are named by their step size."""

COLUMNS = ["number", "statement", "task", "step_size", "verdict", "measured"]
"""Columns of findings."""


class Claim(Options):
    """A statement that a check decides. A negated claim holds if its check fails."""

    number: Annotated[str, BeforeValidator(str)]
    statement: str
    check: AnyCheck  # type: ignore
    negated: bool = False


def judge(frame: pd.DataFrame, claims: Sequence[Claim]) -> pd.DataFrame:
    """Judge every claim on the tasks that have its methods and metrics, under every protocol.

    Args:
        frame: the rows of `mark_best`, with a column `published` if the figure has published step sizes.

    Returns:
        A row for each claim, task and protocol, with COLUMNS.
    """
    findings, tasks = [], []
    for task, rows in frame.groupby("task", sort=False) if claims else ():
        curves = {setting: _curves(chosen) for setting, chosen in protocols(rows).items()}
        tasks.append((task, {*rows["algorithm"]}, {*rows.dropna(axis="columns", how="all")}, curves))
    for claim in claims:
        about = claim.number, claim.statement
        methods, metrics = claim.check.named_methods, claim.check.named_metrics
        of_claim = [
            (*about, task, setting, *_judge_seeds(chosen, claim))
            for task, run, measured, curves in tasks
            if methods <= run and metrics <= measured
            for setting, chosen in curves.items()
        ]
        text = f"no task has all of: {', '.join(sorted(methods | metrics))}"
        findings += of_claim or [(*about, "–", BEST, NOT_DECIDABLE, text)]
    return pd.DataFrame(findings, columns=COLUMNS)


def protocols(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of one task by protocol, with one step size for each method.

    Protocols are the paper's if every method has a published step size, the best ones, and every step size that all
    methods share. With the paper's protocol, or if only best step sizes were run, a protocol with the same rows as an
    earlier one is left out.
    """
    methods = rows["algorithm"].nunique()
    named = {PAPERS: rows[rows["published"]]} if "published" in rows else {}
    named[BEST] = rows[rows["best"]]
    equal = {f"{lr:.12g}": chosen for lr, chosen in rows.groupby("lr")}
    kept: dict[str, pd.DataFrame] = {}
    for setting, chosen in (named | equal).items():
        has_all = setting == BEST or chosen["algorithm"].nunique() == methods
        compares = PAPERS in kept or rows["best"].all()
        is_repeated = compares and any(chosen.index.equals(other.index) for other in kept.values())
        if has_all and not is_repeated:
            kept[setting] = chosen
    return kept


def _curves(rows: pd.DataFrame) -> dict[Hashable, Curves]:
    """The rows of every method, sorted by round, for each seed."""
    return {
        seed: {str(name): curve.sort_values("round") for name, curve in own.groupby("algorithm")}
        for seed, own in rows.groupby("seed")
    }


def _judge_seeds(seeds: Mapping[Hashable, Curves], claim: Claim) -> tuple[str, str]:
    methods = claim.check.named_methods
    findings = {seed: judge_seed(curves, claim) for seed, curves in seeds.items() if methods <= set(curves)}
    if not findings:
        return NOT_DECIDABLE, "no seed that all its methods have"
    lacking = (
        f"; {len(findings)} of {len(seeds)} seeds, which all its methods have" if len(findings) < len(seeds) else ""
    )
    verdict, measured = _combine_seeds(findings)
    return verdict, measured + lacking


def judge_seed(curves: Curves, claim: Claim) -> Finding:
    """Judge a claim on one trial of each method."""
    if short := explain_early_end(curves, sorted(claim.check.must_finish)):
        return Finding(NOT_DECIDABLE, short)
    finding = claim.check.judge(curves)
    return finding.negate() if claim.negated else finding


def _combine_seeds(findings: Mapping[Hashable, Finding]) -> tuple[str, str]:
    """Return a verdict and the measured text from all seeds. A claim holds, or fails, if it does so in every seed.

    The text has a ratio's geometric mean with least and greatest, or other numbers seed by seed. If seeds disagree,
    the text names each with its verdict.
    """
    first, *others = findings.values()
    if any(finding.verdict != first.verdict for finding in others):
        each = (f"seed {seed} {finding.verdict}: {finding.measured}" for seed, finding in findings.items())
        return NOT_DECIDABLE, "; ".join(each)
    ratios = np.array([finding.ratio for finding in findings.values()], dtype=float)  # NaN where there is none
    if not others:
        text = first.measured
    elif not np.isnan(ratios).any():
        numbers = geometric_mean(ratios), ratios.min(), ratios.max()
        mean, low, high = (format_ratio(float(number), *first.thresholds) for number in numbers)
        text = f"{mean} ({low} to {high}, {len(ratios)} seeds)"
    elif all(finding.measured == first.measured for finding in others):
        text = f"{first.measured} ({len(ratios)} seeds alike)"
    else:
        text = "; ".join(f"seed {seed}: {finding.measured}" for seed, finding in findings.items())
    return first.verdict, text
