"""What things are called in wandb: columns of the rows, runs, and the groups that they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from plots.runs.columns import TABLE, column
from plots.runs.read import Run

Options = Mapping[str, Any]
"""Those of conf/logger/wandb.yaml, for one run."""

BITS = "comm/bits"
"""The x-axis of every curve."""

_OF_THE_RUN = ("trial", "lr", "step_size")
"""The same in all rows of a curve: its id and its configuration say it."""

_NAMES = [column.wandb for column in TABLE if column.wandb]

AGAINST_BITS = [
    *(name for name in _NAMES if name.startswith("comm/") and name != BITS),
    *(f"{group}/*" for group in sorted({name.partition("/")[0] for name in _NAMES} - {"comm"})),
    "metric/*",
]
"""What is drawn over bits; a pattern of wandb ends in `*`."""


def name_of(name: str) -> str:
    """What a column is called."""
    return column(name).wandb or f"metric/{name}"


def named(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of metrics.jsonl under wandb's names, without what is missing in it."""
    return {name_of(key): value for key, value in row.items() if value is not None and key not in _OF_THE_RUN}


def is_result(name: str) -> bool:
    """Whether a column measures the model, rather than what the training cost or how the compression did."""
    return column(name).filled_by == "task"


def reached(metric: str, level: float) -> str:
    """What the bits to a level are called in a summary: `bits_to/grad_norm/3e-2`, as wandb takes a dot for a path."""
    sign, digits, exponent = Decimal(str(level)).normalize().as_tuple()
    return f"bits_to/{metric}/{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def group(study: str | None, task: str, workers: int) -> str:
    """Where a run stands: with those of the same figure or sweep, task and number of workers."""
    return f"{study or 'runs'}/{task}/n{workers}"


def ids(run: str, lr: Sequence[float]) -> list[str]:
    """What the curves of a run are known by, one for each step size."""
    return [f"{run}-{trial}" for trial in range(len(lr))] if len(lr) > 1 else [run]


def arguments(run: Run, trial: int, options: Options) -> dict[str, Any]:
    """What wandb.init is told of one curve of a run: its id, name, place and configuration."""
    config, facts = run.config, run.environment
    study, commit, workers = run.study, facts.get("commit"), run.workers
    lr = run.lrs[trial]
    kind = "tune" if len(run.lrs) > 1 else "train" if facts.get("ranks", 1) > 1 else "simulate"
    own = _without(config, ("logger", "results_dir", "data_dir", "file"))
    return {
        "project": options["project"],
        "entity": options["entity"],
        "id": ids(run.id, run.lrs)[trial],
        "name": f"{run.algorithm}-{run.task}-n{workers}-s{config['seed']}-lr{lr:g}",
        "group": group(study, run.task, workers),
        "job_type": options["job_type"] or kind,
        "tags": [tag[:64] for tag in (study, commit and commit[:12]) if tag],  # wandb takes no longer ones
        "config": {**own, "lr": lr, "cluster": {**config["cluster"], "size": workers}, "environment": facts},
    }


def _without(config: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """A configuration without some keys, on any level."""
    return {
        key: _without(value, keys) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in keys
    }
