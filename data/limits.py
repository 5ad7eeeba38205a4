"""How much is too much: bounds by stated numbers and by the memory that is free, held before anything is taken."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from common.errors import DataError

PER_BYTE = 18
"""Bytes of memory that a byte of svmlight text takes while it is read, at most: rows without a feature cost most."""

MEMORY_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""What a container may use, by the newer and the older of Linux's ways."""


def free_memory() -> int:
    """Bytes that this process can still take, as far as the system says: a machine's, or a container's."""
    found = [sys.maxsize]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    for file in MEMORY_FILES:
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(file).read_text()) - _held(Path(file).with_name("memory.stat")))
    if len(found) == 1 and hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found)


def _held(statistics: Path) -> int:
    """Bytes that a container's processes hold, without files that the system keeps for them; 0 where none says."""
    with suppress(OSError, ValueError):
        numbers = dict(line.split() for line in statistics.read_text().splitlines())
        return int(numbers.get("anon") or numbers.get("rss") or 0)
    return 0


def check_room(source: object, size: int) -> None:
    """Raise DataError where memory does not suffice to read so many bytes of svmlight text."""
    check_memory(
        PER_BYTE * size,
        f"{source}: reading {in_words(size)} of text",
        "free some, take a machine with more, or a part of the file",
    )


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise DataError where something takes more bytes than are free."""
    free = free_memory()
    if needed > free:
        raise DataError(f"{what} takes about {in_words(needed)} of memory, and {in_words(free)} are free: {remedy}")


class Bounded(io.RawIOBase):
    """A file, open for reading or writing, of which no more than `most` bytes are read or written in all.

    what: how to call it where it is longer, which raises DataError.
    """

    def __init__(self, file: Any, most: int, what: str) -> None:
        super().__init__()
        self._file, self._most, self._what, self._seen = file, most, what, 0

    def read(self, size: int = -1) -> bytes:
        left = self._most - self._seen
        found = self._file.read(left + 1 if size < 0 else min(size, left + 1))
        self._count(len(found))
        return found

    def write(self, chunk: bytes) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._count(len(chunk))
        return self._file.write(chunk)

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def _count(self, size: int) -> None:
        self._seen += size
        if self._seen > self._most:
            raise DataError(f"{self._what} is longer than {in_words(self._most)}, the most that it can be")


def in_words(size: float) -> str:
    """A number of bytes with three digits and a unit: 1.5 MiB."""
    power = 0
    while size >= 1024 and power < 4:
        size, power = size / 1024, power + 1
    return f"{size:.3g} {['bytes', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"
