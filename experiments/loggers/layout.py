"""What things are called in wandb: columns, runs, the groups that they stand in, and what their summaries hold."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from common.errors import UsageError
from plots.runs.columns import column, higher_is_better
from plots.runs.read import RunRecord

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


def arguments(run: RunRecord, trial: int, options: Options, said: Mapping[str, str]) -> dict[str, Any]:
    """What wandb.init is told of one curve of a run: its id, name, place and configuration.

    `said` is the environment, whose WANDB_NAME, WANDB_RUN_GROUP, WANDB_TAGS and WANDB_NOTES hold where `options` name
    nothing; tags come together. What an agent of wandb's sweeps started is the run that the agent asked for.
    Raises UsageError where it has several step sizes.
    """
    facts, commit, lr = run.environment, run.environment.get("commit"), run.lrs[trial]
    kind = "tune" if len(run.lrs) > 1 else "train" if facts.get("ranks", 1) > 1 else "simulate"
    own = _without(run.config, ("logger", "results_dir", "data_dir", "file"))
    own["cluster"]["size"] = run.workers
    name, step = options["name"] or said.get("WANDB_NAME"), f"-lr{lr:g}"
    tags: list[str] = [
        *filter(None, (run.study, commit and str(commit)[:12])),
        *said.get("WANDB_TAGS", "").split(","),
    ]
    tags += options["tags"] or []
    id = ids(run.id, run.lrs)[trial]
    if "WANDB_SWEEP_ID" in said:
        if len(run.lrs) > 1:
            raise UsageError("a sweep of wandb counts a run as one curve: have it choose one step size, lr")
        id = said.get("WANDB_RUN_ID", id)
    return {
        "project": options["project"],
        "entity": options["entity"],
        "id": id,
        "name": name + step * (len(run.lrs) > 1) if name else _name(run) + step,
        "group": options["group"] or said.get("WANDB_RUN_GROUP") or group(run.study, run.task, run.workers),
        "job_type": options["job_type"] or kind,
        "tags": [tag[:64] for tag in dict.fromkeys(tags) if tag],  # no longer ones
        "notes": options["notes"] or said.get("WANDB_NOTES"),
        "config": {**own, "lr": lr, "environment": facts},
    }


def _name(run: RunRecord) -> str:
    return f"{run.algorithm}-{run.task}-n{run.workers}-s{run.seed}"


def _without(config: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """A configuration without some keys, on any level."""
    return {
        key: _without(value, keys) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in keys
    }
