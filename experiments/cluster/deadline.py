"""An end for a process whose main thread is blocked where neither a signal nor an exception reaches it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from common.errors import end_at_once
from common.signals import handled


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


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Leave Ctrl-C and termination to the system during the with-block, in which there is nothing to save yet."""
    with handled(signal.SIG_DFL, (signal.SIGINT, signal.SIGTERM)):
        yield
