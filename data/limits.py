"""The memory that is free, and what would take more of it."""

import sys
from contextlib import suppress
from pathlib import Path

from rich.filesize import decimal

from common.errors import DataError

MEMORY_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""What a container may use, by the newer and the older of Linux's ways."""


def free_memory() -> int:
    """Bytes that this process can still take, as far as Linux says: a machine's, or all of a container's."""
    found = [sys.maxsize]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    for file in MEMORY_FILES:
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(file).read_text()))
    return min(found)


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise DataError where something takes more bytes than are free."""
    free = free_memory()
    if needed > free:
        raise DataError(
            f"{what} takes about {decimal(int(needed))} of memory, and {decimal(free)} are free: {remedy}"
        )
