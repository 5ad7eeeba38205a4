"""Signals that stop a process, and processes that end with their parent, however it ended."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

GRACE = 4.0
"""Seconds for an orderly end once the parent is gone."""

_PAUSE = 0.2  # seconds between two checks


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a program: SIGINT, SIGTERM and, unless it is ignored, SIGHUP."""
    found = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        found.append(signal.SIGHUP)
    return found


@contextmanager
def stop_requests(most: int | None = None) -> Iterator[list[int]]:
    """Collect stop signals in a list. One more than `most` raises KeyboardInterrupt."""
    requests: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if len(requests) == most:
            raise KeyboardInterrupt
        requests.append(number)

    with handle(note, stop_signals()):
        yield requests


@contextmanager
def handle(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, numbers: Iterable[signal.Signals]
) -> Iterator[None]:
    """Let `handler` receive these signals during the with-block. Outside the main thread nothing changes."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers} if is_main else {}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def end_with_parent() -> None:
    """End this process by SIGTERM once its parent has ended, and outright GRACE seconds later.

    A rank that waits for others in a collective cannot act on a signal."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    if started_by := multiprocessing.parent_process():
        started_by.join()
    else:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
    with suppress(OSError):
        print(f"process {os.getpid()} ends: the one that started it is gone", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)
