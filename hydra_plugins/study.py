"""What happens at the end of a sweep: the best step sizes of its study, and the exit status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, read_write

from common.errors import RunError, exit_with_message

if TYPE_CHECKING:
    from experiments.config.schema import Launch
    from experiments.sweep.cells import Cell

_launched: list[tuple[Sequence[Cell], Sequence[Cell], Launch]] = []


def note(cells: Sequence[Cell], failed: Sequence[Cell], launch: Launch) -> None:
    """Remember a batch of this command's runs, and those of them that failed."""
    _launched.append((cells, failed, launch))


class Study(Callback):
    """Hydra's callback before and after the runs of a sweep."""

    def on_multirun_start(self, config: DictConfig, **others: Any) -> None:
        """Let go of what Hydra writes down of a sweep, multirun.yaml, where the study's folder says more."""
        choices = config.hydra.runtime.choices
        if (choices["hydra/sweeper"], choices["hydra/launcher"]) == ("basic", "processes"):
            self._unwanted = TemporaryDirectory()
            with read_write(config.hydra.sweep):
                config.hydra.sweep.dir = self._unwanted.name

    def on_multirun_end(self, config: DictConfig, **others: Any) -> None:
        """Print the best step sizes over all runs of the study; leave with status 1 where a run failed."""
        with exit_with_message():
            batches, _launched[:] = list(_launched), []
            if not batches or batches[0][2].dry_run:
                return
            from rich.console import Console

            from experiments.config.compose import split
            from experiments.config.run import LAUNCH
            from experiments.sweep.folder import StudyFolder
            from experiments.sweep.selection import report, select

            cells = [cell for batch, *_ in batches for cell in batch]
            failed = [cell for _, batch, _ in batches for cell in batch]
            run = cells[0].run
            choices = select(Path(run.results_dir), str(run.study), batches[0][2].select)
            overrides = {cell.id: split(cell.overrides, LAUNCH)[1] for cell in cells}
            report(choices, StudyFolder(run.results_dir, str(run.study)).selection, Console(), overrides)
            if failed:
                raise RunError(f"{len(failed)} of {len(cells)} runs failed, see above; the others are done")
