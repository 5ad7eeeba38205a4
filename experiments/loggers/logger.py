"""What a logger is, and a run's own one."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from experiments.config.classes import Classes, called
from experiments.config.schema import RunConfig


class Logger:
    """Shows the rows of a run in a second place. Whatever happens there, the run goes on. This one shows nothing."""

    def mirroring(self, folder: Path, say: Callable[[str], None]) -> AbstractContextManager[object]:
        """Mirror metrics.jsonl of a begun run's folder for as long as the with-block lasts, in which rows are only
        added, and status.json as it is at its end. `say` prints a line."""
        return nullcontext()

    def skipped(self, folder: Path, say: Callable[[str], None]) -> None:
        """Say how to show a run that had finished before, which is not done again."""


def build_logger(run: RunConfig) -> Logger:
    """The logger of a run, nothing of it begun. Raises UsageError for a wrong option."""
    if run.logger.target is None:
        return Logger()
    return Classes(run.packages).build(called(run.logger), "logger", Logger)
