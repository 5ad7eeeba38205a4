"""What things are called in wandb: columns, runs, the groups that they stand in, and what their summaries hold."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from plots.runs.columns import column, higher_is_better
from plots.runs.read import Run

Options = Mapping[str, Any]
"""Those of conf/logger/wandb.yaml, for one run."""

_OF_THE_RUN = ("trial", "lr", "step_size")
"""The same in all rows of a curve: its id and its configuration say it."""


def name_of(name: str) -> str:
    """What a column is called."""
    return column(name).wandb or f"metric/{name}"


BITS = name_of("bits")
"""The x-axis of every curve."""


def named(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of metrics.jsonl under wandb's names, without what is missing in it."""
    return {name_of(key): value for key, value in row.items() if value is not None and key not in _OF_THE_RUN}


def reached(metric: str, level: float) -> str:
    """What the bits to a level are called in a summary: `bits_to/grad_norm/3e-2`, as wandb takes a dot for a path."""
    sign, digits, exponent = Decimal(str(level)).normalize().as_tuple()
    return f"bits_to/{metric}/{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def add_to(summary: dict[str, Any], row: Mapping[str, Any], targets: Mapping[str, list[float]]) -> None:
    """Bring a curve's summary up to its next row of metrics.jsonl: where it is, its best, and what it cost.

    targets: by metric the levels whose cost in bits is wanted. A level is reached by the first row at or below it, of
    an accuracy at or above it.
    """
    for name, value in row.items():
        if value is None:
            continue
        better = max if higher_is_better(name) else min
        for level in targets.get(name, []):
            if better(value, level) == value:
                summary.setdefault(reached(name, level), row["bits"])
        if column(name).filled_by == "task":
            summary[f"final/{name}"] = value
            if isfinite(value):
                summary[f"best/{name}"] = better(summary.get(f"best/{name}", value), value)
    summary |= {f"total/{name}": row[name] for name in ("bits", "seconds")}


def group(study: str | None, task: str, workers: int) -> str:
    """Where a run stands: with those of the same figure or sweep, task and number of workers."""
    return f"{study or 'runs'}/{task}/n{workers}"


def ids(run: str, lr: Sequence[float]) -> list[str]:
    """What the curves of a run are known by, one for each step size."""
    return [f"{run}-{trial}" for trial in range(len(lr))] if len(lr) > 1 else [run]


def arguments(run: Run, trial: int, options: Options) -> dict[str, Any]:
    """What wandb.init is told of one curve of a run: its id, name, place and configuration."""
    facts, commit, lr = run.environment, run.environment.get("commit"), run.lrs[trial]
    kind = "tune" if len(run.lrs) > 1 else "train" if facts.get("ranks", 1) > 1 else "simulate"
    own = _without(run.config, ("logger", "results_dir", "data_dir", "file"))
    own["cluster"]["size"] = run.workers
    return {
        "project": options["project"],
        "entity": options["entity"],
        "id": ids(run.id, run.lrs)[trial],
        "name": f"{run.algorithm}-{run.task}-n{run.workers}-s{run.seed}-lr{lr:g}",
        "group": group(run.study, run.task, run.workers),
        "job_type": options["job_type"] or kind,
        "tags": [tag[:64] for tag in (run.study, commit and commit[:12]) if tag],  # wandb takes no longer ones
        "config": {**own, "lr": lr, "environment": facts},
    }


def _without(config: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """A configuration without some keys, on any level."""
    return {
        key: _without(value, keys) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in keys
    }
