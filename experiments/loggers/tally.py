"""What stands beside a curve: where it ended, its best, and what it cost to get somewhere."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from experiments.loggers.layout import is_result, reached
from plots.runs.columns import higher_is_better


class Tally:
    """Reads a curve's rows one by one and keeps a few numbers.

    targets: by metric the levels whose cost in bits is wanted. A level is reached by the first row at or below it, of
    an accuracy at or above it.
    """

    def __init__(self, targets: Mapping[str, list[float]]) -> None:
        self._levels = [(metric, level) for metric, levels in targets.items() for level in levels]
        self._last: Mapping[str, Any] = {}
        self._best: dict[str, float] = {}
        self._reached: dict[str, int] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Take note of the next row of metrics.jsonl."""
        self._last = row
        for column, value in row.items():
            if is_result(column) and value is not None and isfinite(value):
                better = max if higher_is_better(column) else min
                self._best[column] = better(self._best.get(column, value), value)
        for metric, level in self._levels:
            value = row.get(metric)
            if value is not None and (value >= level if higher_is_better(metric) else value <= level):
                self._reached.setdefault(reached(metric, level), row["bits"])

    def summary(self, status: str) -> dict[str, float | str]:
        """The numbers under the names that wandb's tables show; levels never reached are left out."""
        last = self._last
        return {
            "status": status,
            **{f"final/{column}": value for column, value in last.items() if is_result(column) and value is not None},
            **{f"best/{column}": value for column, value in self._best.items()},
            **{f"total/{column}": last[column] for column in ("bits", "seconds") if column in last},
            **self._reached,
        }
