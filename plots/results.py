"""Run folders as one table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import yaml


def read(folders: Iterable[Path]) -> pd.DataFrame:
    """Every row of metrics.jsonl of the given runs, with what identifies and labels the run in columns beside it.

    These are task, algorithm, compressor, seed, run (the id), d; and for drawing task_label, label, color, marker.
    """
    return pd.concat([_read_run(Path(folder)) for folder in folders], ignore_index=True)


def _read_run(folder: Path) -> pd.DataFrame:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    environment = json.loads((folder / "environment.json").read_text())
    algorithm, task = config["algorithm"], config["task"]
    frame = pd.read_json(folder / "metrics.jsonl", lines=True, precise_float=True)
    frame.insert(0, "task", task["name"])
    frame.insert(1, "algorithm", algorithm["name"])
    frame.insert(2, "compressor", config["compressor"]["_target_"].rpartition(".")[2])
    frame.insert(3, "seed", config["seed"])
    return frame.assign(
        run=folder.name, d=environment["d"], task_label=task["display"]["label"], **algorithm["display"]
    )
