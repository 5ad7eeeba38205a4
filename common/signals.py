"""How processes are asked to stop, and end with the one that started them, however that ended."""

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
"""Seconds that a process has for an orderly end once its parent is gone."""

_PAUSE = 0.2  # seconds between two looks


def stops() -> list[signal.Signals]:
    """What asks a program to stop: Ctrl-C, termination and, unless that is ignored, a terminal that closes."""
    found = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        found.append(signal.SIGHUP)
    return found


@contextmanager
def stop_requests(most: int | None = None) -> Iterator[list[int]]:
    """Collect the signals that ask to stop in a list. One more than `most` raises KeyboardInterrupt."""
    found: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if len(found) == most:
            raise KeyboardInterrupt
        found.append(number)

    with handle(note, stops()):
        yield found


@contextmanager
def handle(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, numbers: Iterable[signal.Signals]
) -> Iterator[None]:
    """Let a handler have these signals during the with-block. Only a main thread can: elsewhere nothing changes."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers} if is_main else {}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def end_with_parent() -> None:
    """End this process once the one that started it has ended: by SIGTERM and, since a rank that waits for others in
    a collective cannot act on a signal, outright GRACE seconds later."""
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
