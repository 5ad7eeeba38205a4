"""What a study leaves on disk besides its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from common.errors import RunError
from common.files import atomic
from experiments.config.run import as_yaml
from experiments.sweep.cells import Cell


class StudyFolder:
    """results/sweeps/<study>/

    cells.txt        the ids of its runs, of every command that was about it, in the order they came
    selection.csv    the best step size of each method
    jobs/<id>.yaml   a run's configuration, resolved
    jobs/<id>.log    what its process said, try after try
    """

    def __init__(self, results_dir: str, study: str) -> None:
        self.path = Path(results_dir, "sweeps", study)
        self.selection = self.path / "selection.csv"

    def job(self, id: str) -> Path:
        """The configuration that a run is started from."""
        return self.path / "jobs" / f"{id}.yaml"

    def log(self, id: str) -> Path:
        """What a run's process said."""
        return self.path / "jobs" / f"{id}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second command about the study out. Raises RunError where one is under way."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / ".lock", timeout=0):
                yield
        except Timeout as error:
            raise RunError(f"{self.path}: another process is at this sweep; wait for it or stop it") from error

    def ids(self) -> list[str]:
        """The runs of the study so far."""
        try:
            return (self.path / "cells.txt").read_text().split()
        except FileNotFoundError:
            return []

    def freeze(self, cells: Iterable[Cell]) -> None:
        """Write the configurations, each of them whole or not at all, and then add the cells to the study."""
        for cell in cells:
            with atomic(self.job(cell.id)) as file:
                file.write_text(as_yaml(cell.run))
        with atomic(self.path / "cells.txt") as file:
            file.write_text("".join(f"{id}\n" for id in dict.fromkeys([*self.ids(), *(cell.id for cell in cells)])))
