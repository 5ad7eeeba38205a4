"""What a check comes to, in one seed and over several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from plots.runs.seeds import geometric_mean

HOLDS, FAILS, NOT_DECIDABLE = "holds", "fails", "not decidable"

Curves = Mapping[str, pd.DataFrame]
"""By algorithm: the rows of one trial in order of rounds."""


@dataclass(frozen=True)
class Finding:
    """A verdict and the measured numbers, in words, that it rests on; `ratio` where these are a single ratio."""

    verdict: str
    measured: str
    ratio: float | None = None

    def negated(self) -> Finding:
        """The same numbers about the opposite claim."""
        return replace(self, verdict={HOLDS: FAILS, FAILS: HOLDS}.get(self.verdict, self.verdict))


def decide(true: bool, *numbers: float) -> str:
    """What a comparison came to; nothing where one of the numbers it rests on is missing."""
    if any(math.isnan(number) for number in numbers):
        return NOT_DECIDABLE
    return HOLDS if true else FAILS


def as_times(ratio: float) -> str:
    """Two digits: 0.54×, 1900×, 4.2e14×; a dash where there is no number."""
    if math.isnan(ratio):
        return "–"
    return f"{float(f'{ratio:.2g}'):g}×".replace("e+", "e")


def together(findings: Mapping[int, Finding]) -> Finding:
    """One finding from one a seed: holds or fails where it does so in every seed, and is otherwise not decidable.

    Ratios are given as their geometric mean with least and greatest, other numbers seed by seed; where the seeds
    disagree, each with its verdict.
    """
    if not findings:
        return Finding(NOT_DECIDABLE, "no seed that all methods have")
    if len(findings) == 1:
        [finding] = findings.values()
        return finding
    verdicts = {finding.verdict for finding in findings.values()}
    if len(verdicts) > 1:
        texts = [f"seed {seed} {finding.verdict}: {finding.measured}" for seed, finding in findings.items()]
        return Finding(NOT_DECIDABLE, "; ".join(texts))
    [verdict] = verdicts
    ratios = np.array([math.nan if finding.ratio is None else finding.ratio for finding in findings.values()])
    if not np.isnan(ratios).any():
        mean, low, high = (as_times(float(ratio)) for ratio in (geometric_mean(ratios), ratios.min(), ratios.max()))
        return Finding(verdict, f"{mean} ({low} to {high}, {len(ratios)} seeds)")
    texts = [finding.measured for finding in findings.values()]
    if len(set(texts)) == 1:
        return Finding(verdict, f"{texts[0]} ({len(texts)} seeds alike)")
    return Finding(verdict, "; ".join(f"seed {seed}: {text}" for seed, text in zip(findings, texts, strict=True)))
