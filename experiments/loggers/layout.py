"""Names in wandb: of columns, of groups and ids of runs, and of the entries of a run's summary."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from plots.runs.columns import column, higher_is_better

_SAME_IN_ALL_ROWS = ("trial", "lr", "step_size")


def name_of(name: str) -> str:
    """A column's name in wandb."""
    return column(name).wandb or f"metric/{name}"


BITS = name_of("bits")
"""The x-axis of every curve."""


def renamed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of metrics.jsonl under wandb's names, without missing values."""
    return {name_of(key): value for key, value in row.items() if value is not None and key not in _SAME_IN_ALL_ROWS}


def bits_to(metric: str, level: float) -> str:
    """The name of the bits to a level: `bits_to/grad_norm/3e-2`, without a dot, which wandb takes for a path."""
    sign, digits, exponent = Decimal(str(level)).normalize().as_tuple()
    return f"bits_to/{metric}/{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def add_to(summary: dict[str, Any], row: Mapping[str, Any], targets: Mapping[str, Sequence[float]]) -> None:
    """Update a run's summary with its next row: final and best metrics, totals, and the bits to each target.

    targets: levels by metric. The first row at or below a level has reached it; of an accuracy, at or above.
    """
    for name, value in row.items():
        if value is None:
            continue
        better = max if higher_is_better(name) else min
        for level in targets.get(name, ()):
            if better(value, level) == value:
                summary.setdefault(bits_to(name, level), row["bits"])
        if column(name).filled_by == "task":
            summary[f"final/{name}"] = value
            if isfinite(value):
                summary[f"best/{name}"] = better(summary.get(f"best/{name}", value), value)
    summary |= {f"total/{name}": row[name] for name in ("bits", "seconds")}


def group(study: str | None, task: str, workers: int) -> str:
    """The group of runs with the same figure or sweep, task and number of workers."""
    return f"{study or 'runs'}/{task}/n{workers}"


def ids(run: str, lr: Sequence[float]) -> list[str]:
    """The ids in wandb of a run's curves, one for each step size."""
    return [f"{run}-{trial}" for trial in range(len(lr))] if len(lr) > 1 else [run]
