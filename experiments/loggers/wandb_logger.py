"""Runs mirrored to wandb while they train, by a process of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import IO, Literal, cast

from experiments.loggers.logger import Logger

ROOT = str(Path(__file__).resolve().parents[2])

TARGETS = {
    "grad_norm": [1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-6],
    "test_accuracy": [0.5, 0.6, 0.7, 0.8, 0.9],
}

_GRACE = 10.0  # seconds beyond finish_timeout, for the process itself to end


class WandbLogger(Logger):
    """Has `experiments.loggers.follow` read a run's folder beside the run.

    Training shares nothing with that process but the file that it reads: however slow, unreachable or broken wandb
    is, a row costs the run what it costs without a logger, and no memory grows. The run waits for it once, at its own
    end, for `finish_timeout` and ten seconds at most: less than a sweep waits for a run that it stops. What did not
    arrive by then is sent by `python -m experiments.upload`.

    Raises ValueError where wandb is missing or a value is out of range.
    """

    def __init__(
        self,
        project: str = "cd-adam",  # where the runs are shown
        entity: str | None = None,  # whose project; null: your own default
        mode: Literal["online", "offline"] | None = None,  # null: as your wandb says, offline without a login
        name: str | None = None,  # of the run; null: WANDB_NAME, else made of algorithm, task, workers, seed and lr
        group: str | None = None,  # null: WANDB_RUN_GROUP, else made of study, task and workers
        tags: list | None = None,  # beside those of WANDB_TAGS, the study and the commit
        notes: str | None = None,  # null: WANDB_NOTES
        job_type: str | None = None,  # null: tune (several step sizes) | train (several ranks) | simulate (one)
        system: bool = True,  # processor, memory and GPU of this machine while the run goes on
        git: bool = True,  # the commit, and the address that its repository was cloned from
        code: bool = True,  # the source of every module that the run computes with, as an artifact
        model: bool = False,  # the last checkpoint, as an artifact
        init_timeout: float = 15,  # seconds for wandb to begin a run; offline after that
        finish_timeout: float = 30,  # seconds for wandb to take what is left at a run's end
        targets: dict = TARGETS,  # the summary has the bits to each of these levels, as bits_to/grad_norm/1e-1
    ) -> None:
        if getattr(find_spec("wandb"), "origin", None) is None:  # a folder of that name is no package
            raise ValueError("the package wandb is not installed; pip install wandb, or leave logger=wandb out")
        for name, seconds in (("init_timeout", init_timeout), ("finish_timeout", finish_timeout)):
            if seconds <= 0:
                raise ValueError(f"{name}={seconds:g}: must be a positive number of seconds")
        for metric, levels in targets.items():
            if not isinstance(levels, list) or not all(type(level) in (int, float) for level in levels):
                raise ValueError(f"targets.{metric}={levels}: must be a list of numbers, such as [0.1, 0.01]")
        if tags is not None and not all(isinstance(tag, str) and 0 < len(tag) <= 64 for tag in tags):
            raise ValueError(f"tags={tags}: must be a list of words of 1 to 64 characters")
        self._patience = finish_timeout + _GRACE

    @contextmanager
    def mirroring(self, folder: Path, say: Callable[[str], None]) -> Iterator[None]:
        """Mirror the run; see Logger. The settings are those in the folder's config.yaml."""
        rest = f"to send the rest: python -m experiments.upload {folder}"
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "experiments.loggers.follow", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])},
                process_group=0,  # Ctrl-C is for the run, which then ends this one in order
            )
        except OSError as error:
            say(f"wandb: incomplete (its process could not be started: {error}); {rest}")
            yield
            return
        relay = Thread(target=_relay, args=(process.stdout, say), daemon=True)
        relay.start()
        try:
            yield
        finally:
            cast(IO, process.stdin).close()
            try:
                process.wait(self._patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            relay.join(1)
            if process.wait():
                say(f"wandb: incomplete (its process was ended); {rest}")

    def skipped(self, folder: Path, say: Callable[[str], None]) -> None:
        """Name the command that sends it."""
        say(f"wandb: a finished run is sent by python -m experiments.upload {folder}")


def _relay(lines: IO[str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line.rstrip())
