"""Progress of runs: a bar with the remaining time at a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from contextlib import suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn


def format_duration(seconds: float) -> str:
    """Format a time as 40 s, 12 min or 3.5 h."""
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class Display:
    """Shows how many of the `rounds` of all runs are done.

    Without a terminal it prints a line when a run begins and after every tenth of all rounds.
    """

    def __init__(self, rounds: int, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._total, self._done, self._known, self._name = rounds, 0, 0, ""
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "left", TimeRemainingColumn())
        is_hidden = not self.console.is_terminal
        self._bar = Progress("{task.description}", *columns, console=self.console, disable=is_hidden, transient=True)
        self._task = self._bar.add_task("", total=rounds)

    def __enter__(self) -> Display:
        self._begin = time.monotonic()
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """Print a line that stays. If printing fails, the run goes on."""
        with suppress(OSError):
            self.console.print(line, markup=False)

    def begin(self, name: str) -> None:
        if name != self._name and not self.console.is_terminal:
            self.say(name)
        self._name = name
        self._bar.update(self._task, description=name)

    def skip(self, rounds: int) -> None:
        """Count rounds done earlier. They do not enter the estimate of the time left."""
        self._known += rounds
        self._done += rounds
        self._bar.update(self._task, completed=self._done)

    def advance(self, rounds: int) -> None:
        """Count rounds done now."""
        tenths = 10 * self._done // self._total
        self._done += rounds
        self._bar.update(self._task, completed=self._done)
        if not self.console.is_terminal and 10 * self._done // self._total > tenths:
            elapsed = time.monotonic() - self._begin
            left = elapsed * (self._total - self._done) / (self._done - self._known)
            self.say(f"{self._name}: {self._done} of {self._total} rounds, {elapsed:.0f} s, {left:.0f} s left")
