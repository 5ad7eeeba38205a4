"""Run folders as one table."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import yaml


@dataclass(frozen=True)
class Run:
    """A run's folder: what it was set to, what it ran on and how far it came, as its files say."""

    folder: Path
    config: dict
    environment: dict
    status: dict

    @property
    def task(self) -> str:
        return self.config["task"]["name"]

    @property
    def algorithm(self) -> str:
        return self.config["algorithm"]["name"]

    @property
    def is_finished(self) -> bool:
        return self.status.get("status") == "finished"

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Every whole row of metrics.jsonl; a run that is being written may end in the middle of one.

        Raises ValueError, naming the file, where it is damaged.
        """
        file = self.folder / "metrics.jsonl"
        text = file.read_text()
        whole = text[: text.rfind("\n") + 1]
        try:
            return pd.read_json(io.StringIO(whole), lines=True, precise_float=True, dtype=False)
        except ValueError as error:
            raise ValueError(f"{file}: not rows of JSON ({error}); delete the run or move it elsewhere") from error

    def frame(self) -> pd.DataFrame:
        """The rows with what identifies and labels the run in columns beside them."""
        algorithm, task = self.config["algorithm"], self.config["task"]
        frame = self.rows.copy()
        frame.insert(0, "task", task["name"])
        frame.insert(1, "algorithm", algorithm["name"])
        frame.insert(2, "compressor", self.config["compressor"]["_target_"].rpartition(".")[2])
        frame.insert(3, "seed", self.config["seed"])
        return frame.assign(
            run=self.folder.name,
            d=self.environment.get("d", math.nan),
            task_label=task["display"]["label"],
            **algorithm["display"],
        )


def open_run(folder: Path) -> Run:
    """What lies in a run's folder, its rows aside. Raises ValueError, naming the folder, where that is damaged."""
    try:
        status = folder / "status.json"
        parts = {
            "config.yaml": yaml.safe_load((folder / "config.yaml").read_text()),
            "environment.json": json.loads((folder / "environment.json").read_text()),
            "status.json": json.loads(status.read_text()) if status.exists() else {},
        }
        for name, part in parts.items():
            if not isinstance(part, dict):
                raise ValueError(f"{name} holds no keys")
        return Run(folder, *parts.values())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{folder}: not a whole run folder ({error}); delete it or move it elsewhere") from error


def read(folders: Iterable[Path]) -> pd.DataFrame:
    """Every row of metrics.jsonl of the given runs, with what identifies and labels the run in columns beside it.

    These are task, algorithm, compressor, seed, run (the id), d; and for drawing task_label, label, color, marker.
    """
    return pd.concat([open_run(Path(folder)).frame() for folder in folders], ignore_index=True)
