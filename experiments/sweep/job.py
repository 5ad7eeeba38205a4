"""One run of a sweep as a process: how it is started, where, what it does, and how it is made to end.

    python -m common.parent experiments.sweep.job FILE [PACKAGE ...]

is the process: FILE is a configuration that the sweep resolved and checked; the packages of users are those that its
command line let in. It ends with the sweep, as torchrun does that has several, and they with torchrun. Not for use by
hand.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import IO
from uuid import uuid4

import torch

from common.cores import cores
from common.errors import exit_with_message
from common.files import naming
from common.parent import named
from common.template import Forked, Template
from experiments.config.compose import ROOT
from experiments.config.run import frozen
from experiments.config.schema import RunConfig
from experiments.training.build import device_of
from experiments.training.session import train_here
from experiments.training.threads import SHARE

GRACE = 60.0
"""Seconds that a process has to write its checkpoint after it was asked to end."""

_MARK = "EXPERIMENTS_JOB"
"""The variable by which a job's processes are known, those in sessions of their own too; of a forked job those that
it starts itself."""


def command(file: Path, ranks: int, packages: Sequence[str]) -> list[str]:
    """What runs a frozen configuration with users' packages; on several ranks a torchrun, which takes a free port."""
    bound = ["-m", "common.parent"]
    torchrun = [*bound, "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    job = [*bound, "experiments.sweep.job", str(file), *packages]
    return [sys.executable, *(torchrun if ranks > 1 else []), *job]


def environment(run: RunConfig, jobs: int, ranks: int, slot: int) -> dict[str, str]:
    """What the process of a run finds in its environment besides what is there already.

    slot: which of `jobs` runs at once it is, from 0. Each gets GPUs of its own, as far as there are enough. Cores are
    shared out where nobody said how many threads there should be: more than cores make a run many times slower.
    """
    added = {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    if device_of(run) != "cpu":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        count = torch.cuda.device_count()
        gpus = [name.strip() for name in visible.split(",")][:count] if visible else list(map(str, range(count)))
        added["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[(slot * ranks + rank) % len(gpus)] for rank in range(ranks))
    if run.threads is None and "OMP_NUM_THREADS" not in os.environ:
        added["OMP_NUM_THREADS"] = added[SHARE] = str(max(1, cores() // (jobs * ranks)))
    if ranks > 1:  # torchrun kills its ranks after this time, and needs some itself to say so
        added["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(round(GRACE - 10))
    return added


class Job:
    """A process whose output goes to a log, with what `environment` of its slot says besides this one's variables.

    It gets a session of its own, so that Ctrl-C at the terminal reaches the sweep alone, which then asks each to end.
    With a template it is forked rather than started.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        environment: Callable[[int], dict[str, str]],
        template: Template | None = None,
    ) -> None:
        self.log = log
        self.asked: float | None = None  # when it was asked to end
        self.timed_out = False
        self._command, self._environment, self._template = command, environment, template
        self._mark = uuid4().hex
        self._earlier = 0  # bytes of the log, of tries before this one
        self._begin = self._end = 0.0

    def start(self, slot: int) -> None:
        """Start it as one of those that run at once."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with naming(self.log), self.log.open("ab", buffering=0) as log:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            log.write(f"# {now}  {shlex.join(self._command)}\n".encode())
            self._earlier = log.tell()
            self._begin = time.monotonic()
            self._process = self._started(self._environment(slot) | {_MARK: self._mark}, log)

    def _started(self, environment: dict[str, str], log: IO[bytes]) -> Forked | subprocess.Popen[bytes]:
        if self._template:
            with suppress(OSError):  # starting one may still do
                return self._template.start(self._command, environment, self.log)
        return subprocess.Popen(
            self._command,
            env=os.environ | environment | named(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def has_ended(self) -> bool:
        """Whether it has; nothing of one that was killed is left then."""
        if self._process.poll() is None:
            return False
        self._end = self._end or time.monotonic()
        if self.code < 0:
            self.kill()
        return True

    @property
    def code(self) -> int:
        """The exit status of one that has ended; −s where signal s killed it."""
        return self._process.returncode or 0

    @property
    def seconds(self) -> float:
        """For how long it has run."""
        return (self._end or time.monotonic()) - self._begin

    def stop(self) -> None:
        """Ask it, once, to write its checkpoint and end; where it was asked GRACE seconds ago, kill it."""
        if self.asked is None:
            self.asked = time.monotonic()
            self._process.terminate()  # itself alone: torchrun hands it on, and a second time would mean: at once
        elif time.monotonic() > self.asked + GRACE:
            self.kill()

    def kill(self) -> None:
        """End it and everything that carries its mark, at once: torchrun's ranks have sessions of their own."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"{_MARK}={self._mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)

    def error(self) -> str:
        """The last line of its log that says what was wrong; empty where it was ended from outside."""
        if self.timed_out or self.code < 0:
            return ""
        said = self.log.read_bytes()[self._earlier :].decode(errors="replace").splitlines()
        errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
        causes = [line for line in errors if "lost contact" not in line]
        own = list(takewhile(lambda line: "torch/distributed/elastic" not in line, filter(str.strip, said)))
        return next((lines[-1].strip() for lines in (causes, errors, own) if lines), "")


if __name__ == "__main__":
    with exit_with_message():
        train_here(frozen(Path(sys.argv[1]), sys.argv[2:]))
