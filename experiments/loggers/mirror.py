"""Run folders shown in wandb, those of finished runs and of runs under way alike."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.loggers.curve import Curve
from experiments.loggers.ending import end_service, first_line
from experiments.loggers.layout import Options, arguments
from experiments.loggers.login import Mode, mode_and_reason
from plots.runs.read import open_run

AT_ONCE = 250
"""Rows that are sent in a second while the run goes on, which takes some percent of a processor. A run that has more
needs its processors itself; what is left is sent when it has ended."""

Say = Callable[[str], None]


class Mirror:
    """Mirrors folders one after the other; once wandb could not be reached, all further ones offline.

    mode: that of conf/logger/wandb.yaml. Raises ValueError for a wrong setting of wandb.
    """

    def __init__(self, mode: str | None) -> None:
        self._mode: Mode
        self._mode, self._reason = mode_and_reason(mode)

    def show(
        self, folder: Path, options: Options, say: Say, ended: Callable[[], bool] = lambda: True, patience: float = 0
    ) -> int:
        """Send the rows of metrics.jsonl until `ended`, which may wait a while, and then the summary.

        Returns how many rows were not there before. What an earlier mirror left on this machine is removed: wandb
        cannot append to an offline run, and its rows are those that are sent again here. Another process at the same
        folder is waited for, `patience` seconds. Raises whatever wandb does, filelock.Timeout, and TimeoutError
        where wandb did not take everything in time.
        """
        if self._mode == "disabled":
            say(f"wandb: {self._reason}")
            return 0
        with FileLock(folder / ".wandb.lock", timeout=patience):
            curves = self._begin(folder, options, say)
            try:
                for row in rows(folder / "metrics.jsonl", ended):
                    curves[row["trial"]].log(row)
            finally:
                _finish(curves, open_run(folder).status["status"])
        return sum(curve.sent for curve in curves)

    def _begin(self, folder: Path, options: Options, say: Say) -> list[Curve]:
        run = open_run(folder)

        def curves() -> list[Curve]:
            shutil.rmtree(folder / "wandb", ignore_errors=True)
            return [
                Curve(arguments(run, trial, options), options, str(folder), self._mode)
                for trial in range(len(run.lrs))
            ]

        try:
            begun = curves()
        except Exception as error:
            if self._mode != "online":
                raise
            end_service()  # which would otherwise hold on to the ids
            self._mode, _ = mode_and_reason("offline")
            self._reason = f"it could not begin online ({first_line(error)})"
            begun = curves()
        if self._mode == "online":
            say(f"wandb: {begun[0].url}" + (f" and {len(begun) - 1} more" if len(begun) > 1 else ""))
        else:
            by_file = f"wandb sync {folder}/wandb/offline-run-*"  # which would append to what it sent before
            say(
                f"wandb: offline, {self._reason}; to send it: python -m experiments.upload {folder} (once: {by_file})"
            )
        return begun


def _finish(curves: list[Curve], status: str) -> None:
    """End all at once, so that they have the time of one."""
    with ThreadPoolExecutor(len(curves)) as pool:
        ended = [pool.submit(curve.finish, status) for curve in curves]
    for curve in ended:
        curve.result()


def rows(file: Path, ended: Callable[[], bool] = lambda: True) -> Iterator[dict[str, Any]]:
    """Every row of a file, then those that are added, until `ended`; up to then AT_ONCE between two calls of it."""
    with file.open() as lines:
        over, begun = False, ""
        while not over:
            over = ended()  # asked before reading, so that nothing written before the end is missed
            for part in lines if over else islice(lines, AT_ONCE):
                begun += part
                if begun.endswith("\n"):
                    yield json.loads(begun)
                    begun = ""
