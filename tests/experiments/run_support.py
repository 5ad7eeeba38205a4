"""What the tests of runs import from each other: a command line in process, and what it left on disk."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path

import yaml

from experiments.build import check
from experiments.config import load_run
from experiments.identity import folder
from experiments.progress import Display
from experiments.runner import run

SMALL = ("task=logreg/breast_cancer", "rounds=20", "eval_every=5")
"""A run of a few milliseconds; no download."""

Row = dict[str, float]


# Composing a configuration takes a tenth of a second, longer than the runs of the tests.
configuration = cache(lambda *overrides: load_run(overrides))


def go(*overrides: str) -> Path:
    """Run one configuration in this process, as its command line would, and return its folder."""
    config = deepcopy(configuration(*overrides))
    check(config)
    with Display(config["rounds"]) as display:
        return run(config, display).path


def where(*overrides: str) -> Path:
    """The folder that belongs to a configuration."""
    return folder(configuration(*overrides))


def rows(path: Path) -> list[Row]:
    """Every row of a run."""
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def timeless(path: Path) -> list[Row]:
    """Every row of a run without the one column that differs from run to run."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows(path)]


def status(path: Path) -> dict:
    """The run's status.json."""
    return json.loads((path / "status.json").read_text())


def stored_config(path: Path) -> dict:
    """The run's config.yaml."""
    return yaml.safe_load((path / "config.yaml").read_text())
