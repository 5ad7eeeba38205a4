"""The same for each of many things, on all cores."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from typing import TypeVar

from common.cores import cores
from common.parent import end_with_parent

EACH = 250  # things that make it worth a process
_AT_ONCE = 50  # that are sent to one

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def each(look: Callable[[Thing], Answer], things: Sequence[Thing]) -> list[Answer]:
    """What a function gives for each thing, in order; many things are looked at by several processes.

    It must be one of a module, change nothing that others see, and give what can be pickled.
    """
    safe = hasattr(os, "sched_getaffinity")  # on Linux; elsewhere forking is not
    processes = min(cores() if safe else 1, len(things) // EACH)
    if processes > 1:
        # One that is not forked would import all anew, the caller's script too. Where one is killed, perhaps since
        # memory was short, this process alone takes less.
        with (
            suppress(BrokenProcessPool),
            ProcessPoolExecutor(processes, get_context("fork"), _begin) as pool,
        ):
            return list(pool.map(look, things, chunksize=_AT_ONCE))
    return [look(thing) for thing in things]


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
