"""Signals that are answered otherwise for as long as something lasts."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


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
