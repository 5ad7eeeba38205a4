"""Free memory, and a check before large allocations."""

import re
import sys
from contextlib import suppress
from itertools import product
from pathlib import Path, PurePath

from rich.filesize import decimal

from common.errors import DataError

MEMORY_FILES = ("/sys/fs/cgroup{}/memory.max", "/sys/fs/cgroup/memory{}/memory.limit_in_bytes")
"""Memory limits of a container or control group, in cgroup v2 and v1."""

GROUPS = Path("/proc/self/cgroup")


def free_memory() -> int:
    """Return the bytes that this process may take: free memory, or its container's whole limit if that is less."""
    found = [sys.maxsize]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    own = re.findall(r"^\d+:(?:memory)?:(/.*)$", GROUPS.read_text(), re.MULTILINE) if GROUPS.exists() else []
    groups = {str(group) for path in ["/", *own] for group in (PurePath(path), *PurePath(path).parents)}
    for file, group in product(MEMORY_FILES, groups):
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(file.format(group)).read_text()))
    return min(found)


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise DataError if `what` needs more bytes than are free."""
    free = free_memory()
    if needed > free:
        raise DataError(
            f"{what} takes about {decimal(int(needed))} of memory, and {decimal(free)} are free: {remedy}"
        )
