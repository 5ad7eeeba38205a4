"""Claims of methods' papers about bits to a level, judged by the entries of a track."""

import math
from collections.abc import Iterable
from typing import Annotated

import numpy as np
import pandas as pd
from annotated_types import Gt
from pydantic import BeforeValidator

from plots.claims.check import FAILS, HOLDS, NOT_DECIDABLE, Positive, format_distinct
from plots.leaderboard import statistics
from plots.leaderboard.ranking import Levels
from plots.runs.options import Options

COLUMNS = ["number", "statement", "task", "level", "verdict", "measured"]

LEAST = 5
"""The least number of seeds of both entries."""


class BitsClaim(Options):
    """`subject` needs at least `times` fewer bits than `reference`. With `within` the ratio is `times` up to this
    factor. With `times: 1` equal bits fail."""

    number: Annotated[str, BeforeValidator(str)]
    statement: str
    subject: str  # the name of an entry
    reference: str
    times: Positive
    within: Annotated[float, Gt(1)] | None = None


def judge(levels: Levels, claims: Iterable[BitsClaim]) -> pd.DataFrame:
    """Judge every claim on each task and level with runs of both its entries. Returns COLUMNS."""
    findings, claims = [], list(claims)
    for level, (_, needs) in enumerate(levels, start=1):
        for task, runs in needs.items():
            bits, is_bound = statistics.average_tasks(runs)
            for claim in claims:
                if {claim.subject, claim.reference} <= set(bits):
                    finding = _decide(claim, *(table[[claim.subject, claim.reference]] for table in (bits, is_bound)))
                    findings.append((claim.number, claim.statement, task, level, *finding))
    return pd.DataFrame(findings, columns=COLUMNS)


def _decide(claim: BitsClaim, bits: pd.DataFrame, is_bound: pd.DataFrame) -> tuple[str, str]:
    """Return a verdict and the measured text. The 95 % interval of the ratio decides."""
    bits = bits.dropna()
    if len(bits) < LEAST:
        return NOT_DECIDABLE, f"{len(bits)} seeds of both; {LEAST} are needed"
    missed, theirs_missed = is_bound.loc[bits.index].sum()
    if missed:
        verdict = NOT_DECIDABLE if theirs_missed else FAILS
        theirs = f", {claim.reference} in {theirs_missed}" if theirs_missed else ""
        return verdict, f"{claim.subject} misses the level in {missed} of {len(bits)} seeds{theirs}"
    ratios = (bits[claim.reference] / bits[claim.subject]).to_numpy()
    mean, low, high = statistics.geometric_interval(ratios, is_bound=theirs_missed > 0)
    least, most = (
        (claim.times / claim.within, claim.times * claim.within) if claim.within else (claim.times, math.inf)
    )
    is_equal = low == high == least == 1
    fails = high < least or low > most or is_equal
    verdict = HOLDS if least < low and high <= most else FAILS if fails else NOT_DECIDABLE
    texts = [format_distinct(float(f"{ratio:.12g}"), (least, most), ".{}g", 2) for ratio in (mean, low, high)]
    numbers = [f"{float(text):.12g}" if np.isfinite(float(text)) else "–" for text in texts]
    bound = "> " if theirs_missed else ""
    return verdict, f"{bound}{numbers[0]} times [{numbers[1]}, {numbers[2]}]"
