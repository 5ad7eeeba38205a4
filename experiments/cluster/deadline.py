"""An end for a process whose main thread is blocked where neither a signal nor an exception reaches it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from common.errors import end_at_once


@contextmanager
def deadline(seconds: float, message: str) -> Iterator[None]:
    """End this process with an error message where the with-block takes longer than so many seconds."""
    timer = Timer(seconds, end_at_once, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
