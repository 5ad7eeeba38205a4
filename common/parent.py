"""Processes that do not outlive the one that started them, however that ended."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress

GRACE = 4.0
"""Seconds that a process has for an orderly end once its parent is gone."""

_PAUSE = 0.2  # seconds between two looks


def end_with_parent() -> None:
    """End this process once the one that started it has ended.

    It gets SIGTERM and is ended GRACE seconds later, since a rank that waits for the others in a collective cannot
    act on a signal.
    """
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
