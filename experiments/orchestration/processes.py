"""Several jobs at once, each in a process with a log, an environment and a time limit; none outlives the sweep."""

import gc
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType
from typing import Any

from common.files import name_in_errors
from common.signals import end_with_parent, stop_requests, stop_signals

GRACE = 60.0
"""Seconds between the first request to end, the second, and the kill."""

PRELOADED = ("torch", "scipy.sparse", "experiments.orchestration.preloaded")
"""Modules that the fork server imports once for all jobs."""

_PAUSE = 0.2  # seconds between two calls of `watch`

_server = get_context("forkserver")
if sys.platform == "linux":  # elsewhere a process that has imported these cannot always be forked
    _server.set_forkserver_preload([*PRELOADED])


def start_server() -> None:
    """Start the process that jobs are forked from, unless it runs already."""
    environment = dict(os.environ)
    # Otherwise it would look for our modules in the current folder first, and with some Pythons only there.
    os.environ.update(PYTHONPATH=os.pathsep.join(sys.path), PYTHONSAFEPATH="1")
    resource_tracker.ensure_running()  # otherwise the server starts the tracker and lifts the mask
    # The server inherits the mask. So only the sweep reacts to a signal to the whole group, such as Ctrl-C.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals())
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(environment)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@dataclass(eq=False)
class Job:
    """A function call in a process of its own.

    Its output is appended to `log`. environment: gives its variables besides ours, by the slot that it runs in.
    kind: jobs of one kind take about equally long.
    """

    function: Callable[..., object]
    arguments: Sequence[object]
    log: Path
    environment: Callable[[int], dict[str, str]]
    kind: object = None
    last_request: float = 0.0  # to end, as time.monotonic() gives it
    requests: int = 0  # to end, so far
    timed_out: bool = False
    seconds: float = 0.0  # how long it took

    def start(self, slot: int) -> None:
        """Start it in this slot of the jobs that run at once."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with name_in_errors(self.log), self.log.open("ab", buffering=0) as log:
            log.write(f"# {datetime.now(UTC).isoformat(timespec='seconds')}\n".encode())
            self._log_before = log.tell()
        environment = {**os.environ, **self.environment(slot)}
        call = (self.log.absolute(), environment, self.function, self.arguments)
        self._process = _server.Process(target=_call, args=call)
        self._begin = time.monotonic()
        start_server()
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")  # or the job would import the command, or the user's script
        try:
            self._process.start()
        finally:
            sys.modules["__main__"] = main

    @property
    def sentinel(self) -> int:
        """Becomes ready when it ends, see `multiprocessing.connection.wait`."""
        return self._process.sentinel

    @property
    def code(self) -> int | None:
        """The exit status; −s if signal s killed it, None while it runs."""
        return self._process.exitcode

    def check(self, timeout: float | None) -> bool:
        """Whether it has ended. Asks it to end if it has run for longer than `timeout`."""
        self.seconds = time.monotonic() - self._begin
        if self.code is not None:
            return True
        if timeout is not None and self.seconds > timeout and not self.requests:
            self.timed_out = True
            self.stop()
        return False

    def stop(self) -> None:
        """Ask it to write its checkpoint and end; GRACE seconds later ask again, and then kill it.

        A run ends after its round at the first request, and within it at the second."""
        if not self.requests or time.monotonic() > self.last_request + GRACE:
            self.last_request, self.requests = time.monotonic(), self.requests + 1
            if self.requests <= 2:
                self._process.terminate()
            else:
                self.kill()

    def kill(self) -> None:
        """End it at once. Processes that it started notice and end too."""
        self._process.kill()

    def error(self) -> str:
        """Return the error line of its log; empty if it was ended from outside."""
        if self.timed_out or (self.code or 0) < 0:
            return ""
        output = self.log.read_bytes()[self._log_before :].decode(errors="replace").splitlines()
        errors = [line.removeprefix("error: ") for line in output if line.startswith("error: ")]
        causes = [line for line in errors if "lost contact" not in line]
        own = list(takewhile(lambda line: "torch/distributed/elastic" not in line, filter(str.strip, output)))
        return next((lines[-1].strip() for lines in (causes, errors, own) if lines), "")


def _call(log: Path, environment: dict[str, str], function: Callable[..., object], arguments: Sequence[Any]) -> None:
    """Call the function. The process has a session of its own, so Ctrl-C at the terminal reaches the sweep alone."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals())
    end_with_parent()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.clear()  # the fork server's, which may have started under another environment
    os.environ.update(environment)
    gc.freeze()  # what the fork server imported stays
    function(*arguments)


def run_jobs(
    jobs: Iterable[Job],
    at_once: int,
    timeout: float | None,
    on_end: Callable[[Job], bool],
    watch: Callable[[], object],
    say: Callable[[str], object],
) -> bool:
    """Run all jobs, `at_once` of them at a time, each for at most `timeout` seconds.

    Kinds that have not run yet start first, then the slowest. Short jobs come last, so that cores finish together.

    on_end: called with each job that has ended; if it returns False, the others are asked to end too. watch: called
    now and then meanwhile. Ctrl-C and SIGTERM ask all jobs to end; a second one kills them. Returns whether any came.
    """
    waiting, running, took = list(jobs), dict[int, Job](), dict[object, float]()
    stopping = False
    with stop_requests() as requests:

        def start(slot: int) -> None:
            if waiting and not stopping and not requests:
                job = max(waiting, key=lambda job: took.get(job.kind, math.inf))  # the first of equals
                waiting.remove(job)
                job.start(slot)
                running[slot] = job

        try:
            while running or (waiting and not stopping):
                for slot in set(range(at_once)) - running.keys():
                    start(slot)
                wait([job.sentinel for job in running.values()], _PAUSE)
                watch()
                for slot, job in list(running.items()):
                    if job.check(timeout):
                        del running[slot]
                        took[job.kind] = job.seconds
                        if job.code == 0:
                            start(slot)  # first, because `on_end` takes a while
                        stopping = not on_end(job) or stopping
                if requests and not stopping:
                    stopping = True
                    say(f"{len(running)} runs are asked to write a checkpoint and end; a second signal kills them")
                _stop([job for job in running.values() if stopping or job.requests], requests)
        finally:
            while running := {slot: job for slot, job in running.items() if not job.check(None)}:
                _stop(running.values(), requests)
                time.sleep(_PAUSE)
    return bool(requests)


def _stop(jobs: Iterable[Job], requests: list[int]) -> None:
    for job in jobs:
        job.stop()
        if len(requests) > 1:
            job.kill()
