"""Several processes at once, of which none outlives the sweep."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from common.signals import handled, stops
from experiments.sweep.job import Job

_PAUSE = 0.05  # seconds between two looks at the processes


def run_jobs(
    jobs: list[Job],
    at_once: int,
    timeout: float | None,
    ended: Callable[[Job], bool],
    watch: Callable[[], object],
    say: Callable[[str], object],
) -> bool:
    """Run all jobs, `at_once` of them at a time, each for at most `timeout` seconds.

    ended: called with each one that has; where it says False, the others are asked to end too. watch: called now and
    then meanwhile.
    Ctrl-C and termination ask all of them, and a second time kills them. Returns whether that was so. An exception
    raised meanwhile ends them in the same way.
    """
    waiting, running = deque(jobs), dict[int, Job]()
    stopping = False
    with _requests() as requests:
        try:
            while running or (waiting and not stopping):
                for slot in range(at_once):
                    if waiting and slot not in running and not stopping:
                        job = waiting.popleft()
                        job.start(slot)
                        running[slot] = job
                time.sleep(_PAUSE)
                watch()
                for slot, job in list(running.items()):
                    if job.has_ended():
                        del running[slot]
                        stopping = not ended(job) or stopping
                    elif timeout is not None and job.seconds > timeout and job.asked is None:
                        job.timed_out = True
                        job.stop()
                if requests and not stopping:
                    stopping = True
                    say(f"{len(running)} runs are asked to write a checkpoint and end; a second time kills them")
                _press([job for job in running.values() if stopping or job.asked], requests)
        finally:
            while running:
                _press(running.values(), requests)
                time.sleep(_PAUSE)
                running = {slot: job for slot, job in running.items() if not job.has_ended()}
    return bool(requests)


def _press(jobs: Iterable[Job], requests: list[int]) -> None:
    for job in jobs:
        job.stop()
        if len(requests) > 1:
            job.kill()


@contextmanager
def _requests() -> Iterator[list[int]]:
    """Collect what asks to stop in a list."""
    found: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        found.append(number)

    with handled(note, stops()):
        yield found
