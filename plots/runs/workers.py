"""The same for each of many things, on all cores."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from typing import TypeVar

from common.parent import end_with_parent

EACH = 250  # things that make it worth a process
_AT_ONCE = 50  # that are sent to one

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def each(look: Callable[[Thing], Answer], things: Sequence[Thing]) -> list[Answer]:
    """What a function gives for each thing, in order; many things are looked at by several processes.

    It must be one of a module, change nothing that others see, and give what can be pickled.
    """
    processes = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, len(things) // EACH)
    if processes > 1 and "fork" in get_all_start_methods():  # others would import all anew, the caller's script too
        try:
            with ProcessPoolExecutor(processes, get_context("fork"), _begin, (os.getpid(),)) as pool:
                return list(pool.map(look, things, chunksize=_AT_ONCE))
        except (
            BrokenProcessPool
        ):  # one was killed, perhaps since memory was short, of which a single process takes less
            pass
    return [look(thing) for thing in things]


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started it
    end_with_parent(parent)
