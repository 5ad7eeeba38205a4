"""Rows as a run writes them, for whoever reads beside it."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from plots.runs.files import follow

AT_ONCE = 250
"""Rows that are read in a second while the run goes on, which takes some percent of a processor. A run that has more
needs its processors itself; what is left is read when it has ended."""


def rows(file: Path, ended: Callable[[], bool] = lambda: True) -> Iterator[dict[str, Any]]:
    """Every row of a file, then those that are added, until `ended`; up to then AT_ONCE between two calls of it.

    Raises ValueError, naming the line, where one is damaged.
    """
    return follow(_lines(file, ended), file)


def _lines(file: Path, ended: Callable[[], bool]) -> Iterator[bytes]:
    with file.open("rb") as lines:
        over, begun = False, b""
        while not over:
            over = ended()  # asked before reading, so that nothing written before the end is missed
            for part in lines if over else islice(lines, AT_ONCE):
                begun += part
                if begun.endswith(b"\n"):
                    yield begun
                    begun = b""
