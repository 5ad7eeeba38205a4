"""What a sweep leaves on disk besides its runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from filelock import FileLock, Timeout

from common.errors import RunError
from common.files import atomic
from experiments.sweep.grid import Cell


class SweepFolder:
    """results/sweeps/<study>/

    cells.txt        the ids of its runs, in order     jobs/<id>.yaml  a run's configuration, resolved
    selection.csv    the best step sizes, if asked     jobs/<id>.log   what its process said, try after try
    array.sh         the array job, if asked
    """

    def __init__(self, results_dir: str, study: str) -> None:
        self.study = study
        self.path = Path(results_dir, "sweeps", study)

    def job(self, id: str) -> Path:
        """The configuration that a run is started from."""
        return self.path / "jobs" / f"{id}.yaml"

    def log(self, id: str) -> Path:
        """What a run's process said."""
        return self.path / "jobs" / f"{id}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second sweep of the same name out. Raises RunError where one is under way."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / ".lock", timeout=0):
                yield
        except Timeout as error:
            raise RunError(f"{self.path}: another process is at this sweep; wait for it or stop it") from error

    def freeze(self, cells: list[Cell]) -> None:
        """Write the configurations, each of them whole or not at all, and add them to the study's list."""
        for cell in cells:
            with atomic(self.job(cell.id)) as file:
                file.write_text(yaml.safe_dump(cell.config, sort_keys=False, allow_unicode=True))
        listed = self.path / "cells.txt"
        before = listed.read_text().split() if listed.exists() else []
        with atomic(listed) as file:
            file.write_text("".join(f"{id}\n" for id in dict.fromkeys([*before, *(cell.id for cell in cells)])))
