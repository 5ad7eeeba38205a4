"""What things are called in wandb: columns of the rows, runs, and the groups that they stand in."""

from __future__ import annotations

from decimal import Decimal

from plots.runs.columns import TABLE, column

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


def named(row: dict) -> dict:
    """A row of metrics.jsonl under wandb's names, without what is missing in it."""
    return {name_of(key): value for key, value in row.items() if value is not None and key not in _OF_THE_RUN}


def is_result(name: str) -> bool:
    """Whether a column measures the model, rather than what the training cost or how the compression did."""
    return column(name).filled_by == "task"


def reached(metric: str, level: float) -> str:
    """What the bits to a level are called in a summary: `bits_to/grad_norm/3e-2`, as wandb takes a dot for a path."""
    sign, digits, exponent = Decimal(str(level)).normalize().as_tuple()
    return f"bits_to/{metric}/{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def group(config: dict) -> str:
    """Where a run stands: with those of the same figure or sweep, task and number of workers."""
    return f"{config.get('study') or 'runs'}/{config['task']['name']}/n{config['cluster']['workers']}"


def ids(run: str, config: dict) -> list[str]:
    """What the curves of a run are known by, one for each step size."""
    several = len(config["lr"]) > 1
    return [f"{run}-{trial}" for trial in range(len(config["lr"]))] if several else [run]


def arguments(run: str, config: dict, facts: dict, trial: int, options: dict) -> dict:
    """What wandb.init is told of one curve: its id, name, place and configuration.

    run: the run's id; config, facts: what its config.yaml and environment.json hold; options: the logger's.
    """
    task, algorithm, workers = config["task"]["name"], config["algorithm"]["name"], config["cluster"]["workers"]
    study, commit, lr = config.get("study"), facts.get("commit"), config["lr"][trial]
    several = len(config["lr"]) > 1
    kind = "tune" if several else "train" if facts.get("ranks", 1) > 1 else "simulate"
    own = _without(config, ("logger", "results_dir", "data_dir", "file"))
    return {
        "project": options["project"],
        "entity": options["entity"],
        "id": ids(run, config)[trial],
        "name": f"{algorithm}-{task}-n{workers}-s{config['seed']}-lr{lr:g}",
        "group": group(config),
        "job_type": options["job_type"] or kind,
        "tags": [tag[:64] for tag in (study, commit and commit[:12]) if tag],  # wandb takes no longer ones
        "config": {**own, "lr": lr, "cluster": {**config["cluster"], "size": workers}, "environment": facts},
    }


def _without(node: dict, keys: tuple[str, ...]) -> dict:
    """A configuration without some keys, on any level."""
    return {
        key: _without(value, keys) if isinstance(value, dict) else value
        for key, value in node.items()
        if key not in keys
    }
