"""The memory that is free, and what would take more of it."""

import sys
from contextlib import suppress
from pathlib import Path

from rich.filesize import decimal

from common.errors import DataError

GROUPS, LIMITS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""Which control group this process is of, and where Linux says what a group may use."""


def free_memory() -> int:
    """Bytes that this process can still take, as far as Linux says: a machine's, or all of a container's or job's."""
    found = [sys.maxsize]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with suppress(OSError):
        own = LIMITS / GROUPS.read_text().strip().rpartition("::/")[2]
        for group in (own, *own.parents):
            with suppress(OSError, ValueError):  # "max" is no number
                found.append(int((group / "memory.max").read_text()))
    return min(found)


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise DataError where something takes more bytes than are free."""
    free = free_memory()
    if needed > free:
        raise DataError(
            f"{what} takes about {decimal(int(needed))} of memory, and {decimal(free)} are free: {remedy}"
        )
