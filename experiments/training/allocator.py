"""How the C library hands out memory in a process that trains."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # mallopt(3)


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for what is asked for next, for the rest of the process.

    By default every vector beyond 32 MiB comes from the system anew, which zeroes its pages one fault at a time: with
    the vectors of a large network that takes longer than to compute with them. Elsewhere than on Linux with glibc
    nothing is done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
