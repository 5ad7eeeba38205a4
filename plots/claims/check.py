"""The base of checks: typed options, methods and metrics, verdicts, and numbers as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from annotated_types import Gt, Le, MinLen
from pydantic import AfterValidator

from plots.runs.columns import suggest_column
from plots.runs.options import Options

HOLDS, FAILS, NOT_DECIDABLE = "holds", "fails", "not decidable"

Curves = Mapping[str, pd.DataFrame]
"""The rows of one trial, sorted by round, for each algorithm."""


def _check_metric(name: str) -> str:
    """Refuse only names close to one of ours, because a task may name its metrics freely."""
    if near := suggest_column(name):
        raise ValueError(f"no column is called {name}; did you mean {near}?")
    return name


METHOD, METRIC = "a method", "a metric"

Method = Annotated[str, METHOD]
Methods = Annotated[list[str], MinLen(1), METHOD]
Metric = Annotated[str, AfterValidator(_check_metric), METRIC]
Metrics = Annotated[list[Annotated[str, AfterValidator(_check_metric)]], MinLen(1), METRIC]
Positive = Annotated[float, Gt(0)]
Share = Annotated[float, Gt(0), Le(1)]


@dataclass(frozen=True)
class Finding:
    """A verdict and the measured numbers as text; also the ratio and its thresholds if it rests on one ratio."""

    verdict: str
    measured: str
    ratio: float | None = None
    thresholds: tuple[float, ...] = ()

    def negate(self) -> Finding:
        """Return the finding of the opposite claim, with the same numbers."""
        return replace(self, verdict={HOLDS: FAILS, FAILS: HOLDS}.get(self.verdict, self.verdict))


class Check(Options):
    """A rule that decides a claim about one task's curves. Its fields are the options in conf/figure.

    `needs` are the columns that it reads besides the metrics among its options.
    """

    needs: ClassVar[frozenset[str]] = frozenset()

    def judge(self, curves: Curves) -> Finding:
        """Return the verdict with its numbers."""
        raise NotImplementedError

    @property
    def named_methods(self) -> set[str]:
        """The methods among its options."""
        return self._names_marked(METHOD)

    @property
    def named_metrics(self) -> set[str]:
        return self._names_marked(METRIC) | self.needs

    @property
    def must_finish(self) -> set[str]:
        """The methods that must reach their last round; otherwise nothing can be decided."""
        return self.named_methods

    def _names_marked(self, mark: str) -> set[str]:
        fields = type(self).model_fields.items()
        values = (getattr(self, name) for name, field in fields if mark in field.metadata)
        return {name for value in values for name in ([value] if isinstance(value, str) else value)}


def decide(true: bool, *numbers: float) -> str:
    """Return the verdict of a comparison. It is not decidable if one of its numbers is NaN."""
    return NOT_DECIDABLE if np.isnan(numbers).any() else HOLDS if true else FAILS


def ratio_finding(true: bool, ratio: float, *thresholds: float) -> Finding:
    return Finding(decide(true, ratio), format_ratio(ratio, *thresholds), ratio, thresholds)


def combine_findings(findings: Sequence[Finding]) -> Finding:
    """Combine findings about several methods or metrics. One failure fails all."""
    verdicts = [finding.verdict for finding in findings]
    verdict = next((bad for bad in (FAILS, NOT_DECIDABLE) if bad in verdicts), HOLDS)
    return Finding(verdict, "; ".join(finding.measured for finding in findings))


def format_ratio(ratio: float, *thresholds: float) -> str:
    """Format a ratio with two digits: 0.54×, 1900×, 4.2e14×; a dash for NaN.

    Within a tenth of a threshold it has three digits, or more until it lies on the right side of the threshold.
    """
    if math.isnan(ratio):
        return "–"
    if any(abs(ratio / threshold - 1) < 0.1 for threshold in thresholds):
        return f"{format_distinct(ratio, thresholds, '#.{}g', 3)}×"
    return short_exponent(f"{float(f'{ratio:.2g}'):g}×")


def format_percent(share: float, threshold: float) -> str:
    """Format a share as whole percent, with decimals if rounding would move it across the threshold."""
    return f"{format_distinct(100 * share, [100 * threshold], '.{}f', 0)} %"


def format_distinct(number: float, thresholds: Sequence[float], form: str, digits: int) -> str:
    """Format a number with this many digits, or more if rounding would move it across a threshold."""

    def is_so(text: float) -> bool:
        return all(np.sign(text - limit) == np.sign(number - limit) for limit in thresholds)

    return format_all_distinct([number], is_so, form, digits)[0]


def format_all_distinct(
    numbers: Sequence[float], is_so: Callable[..., bool], form: str = ".{}g", digits: int = 3
) -> list[str]:
    """Format numbers with this many digits, or more until `is_so` is true of the printed ones."""
    for count in range(digits, 17):
        texts = [format(number, form.format(count)) for number in numbers]
        if is_so(*map(float, texts)):
            return texts
    return [repr(number) for number in numbers]


def short_exponent(text: str) -> str:
    """Shorten 1e+06 to 1e6."""
    return text.replace("e+0", "e").replace("e+", "e")


def explain_early_end(curves: Curves, names: Iterable[str]) -> str:
    """Say which of these curves ends before its last planned round; empty if none does.

    Without a column `planned_rounds`, the longest curve gives the planned rounds.
    """
    longest = max(frame["round"].max() for frame in curves.values())
    for name in names:
        frame = curves[name]
        last, rounds = frame["round"].max(), frame.get("planned_rounds", pd.Series(longest)).max()
        if last < rounds:
            return f"{name} ends at round {last:g} of {rounds:g}"
    return ""
