"""The interface of loggers, and the logger of a run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.config.classes import Classes, as_node
from experiments.config.schema import RunConfig
from plots.runs.columns import column
from plots.runs.files import METRICS, STATUS, read_json, read_rows

Row = dict[str, Any]
Say = Callable[[str], object]
"""Prints a line beside the progress bar."""

_CONSTANT = ("trial", "lr", "step_size")


class Logger:
    """Shows a run's rows in a second place. It may raise anything: the run goes on without it."""

    title = ""

    def begin(self, folder: Path, say: Say) -> None:
        """Start with the run in this folder, which may be finished. All of its rows follow, from the first one."""

    def log(self, row: Row) -> None:
        """Show the next row of metrics.jsonl."""

    def finish(self, status: str) -> None:
        """End with the run's status. Called whatever happened before, also where `begin` failed."""


def build_logger(run: RunConfig) -> Logger | None:
    """Build the run's logger, None for `logger=none`. Raises UsageError for a wrong option."""
    return None if run.logger.target is None else Classes(run.packages).build(as_node(run.logger), "logger", Logger)


@contextmanager
def open_logger(logger: Logger | None, folder: Path, say: Say) -> Iterator[Callable[[Iterable[Row]], None]]:
    """Show the rows that a run has, then those given to the yielded function, until the with-block ends.

    The logger's first error is printed, and no row is shown after it.
    """
    if logger is None:
        yield lambda rows: None
        return
    errors: list[Exception] = []

    def attempt(call: Callable, *arguments: object) -> None:
        try:
            call(*arguments)
        except Exception as error:
            errors.append(error)
            if len(errors) == 1:
                say(f"{logger.title}: incomplete ({one_line(error)}); the run's folder has every row: {folder}")

    def show(rows: Iterable[Row]) -> None:
        for row in rows:
            if not errors:
                attempt(logger.log, row)

    attempt(logger.begin, folder, say)
    if (folder / METRICS).exists():
        show(read_rows(folder))
    try:
        yield show
    finally:
        attempt(lambda: logger.finish(read_json(folder / STATUS)["status"]))


def one_line(error: Exception) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()).rstrip(".") or repr(error)


def wandb_name(name: str) -> str:
    """Return a column's name in wandb."""
    known = column(name)
    return known.wandb or f"{'compression' if known.filled_by == 'diagnostics' else 'metric'}/{name}"


def wandb_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of metrics.jsonl under wandb's names, without missing values."""
    return {wandb_name(key): value for key, value in row.items() if value is not None and key not in _CONSTANT}
