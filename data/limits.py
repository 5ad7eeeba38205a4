"""The memory that is free, and what would take more of it."""

import sys
from contextlib import suppress
from pathlib import Path

from common.errors import DataError

MEMORY_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""What a container may use, by the newer and the older of Linux's ways."""


def free_memory() -> int:
    """Bytes that this process can still take, as far as Linux says: a machine's, or a container's."""
    found = [sys.maxsize]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    for file in MEMORY_FILES:
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(file).read_text()) - _held(Path(file).with_name("memory.stat")))
    return min(found)


def _held(statistics: Path) -> int:
    """Bytes that a container's processes hold, without files that the system keeps for them; 0 where none says."""
    with suppress(OSError, ValueError):
        numbers = dict(line.split() for line in statistics.read_text().splitlines())
        return int(numbers.get("anon") or numbers.get("rss") or 0)
    return 0


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise DataError where something takes more bytes than are free."""
    free = free_memory()
    if needed > free:
        raise DataError(f"{what} takes about {in_words(needed)} of memory, and {in_words(free)} are free: {remedy}")


def in_words(size: float) -> str:
    """A number of bytes with three digits and a unit: 1.5 MiB."""
    power = 0
    while size >= 1024 and power < 4:
        size, power = size / 1024, power + 1
    return f"{size:.3g} {['bytes', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"
