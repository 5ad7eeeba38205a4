"""The files in a run's folder, read after their checksums are verified.

All raise ValueError, naming the file and what is wrong with it, where one is damaged, and OSError.
"""

import json
import os
from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from plots.runs import checksums

CONFIG, ENVIRONMENT, STATUS, METRICS = "config.yaml", "environment.json", "status.json", "metrics.jsonl"
FILES = (CONFIG, "code.json", ENVIRONMENT, STATUS, METRICS, "summary.json")
"""The files of a finished run besides its checkpoint; an unfinished one has no summary."""

_TAIL = 1 << 16  # bytes, more than an evaluation's rows

Row = dict[str, Any]


def read_json(file: Path) -> dict[str, Any]:
    """An object of JSON, without its checksum."""
    found = json.loads(checksums.read(file))
    del found[checksums.KEY]
    return found


def read_lines(folder: Path) -> Iterator[bytes]:
    """The verified lines of metrics.jsonl; a run may be in the middle of the last one, which is left out."""
    file = folder / METRICS
    with file.open("rb") as stream:
        yield from checksums.verify_rows((line for line in stream if line.endswith(b"\n")), file)


def read_rows(folder: Path) -> Iterator[Row]:
    """Every whole row of a run, without its checksum."""
    return map(_row, read_lines(folder))


def last_rows(folder: Path, status: Mapping[str, Any]) -> list[Row]:
    """The rows of the last evaluation, verified, read from the end of metrics.jsonl.

    status: what status.json says; it holds how many bytes of rows there were at least when it was written, and of a
    finished run exactly.
    """
    file = folder / METRICS
    begin, tail = ending(file)
    lines, before = tail.splitlines(keepends=True), None
    if begin:
        before, lines = checksums.stated(b"".join(lines[1:2])), lines[2:]  # the first of them was cut
    lines = [*checksums.verify_rows(lines, file, before)]
    counted = status.get("metrics_size", 0)
    if begin + len(tail) < counted:
        raise ValueError(f"{file}: rows are missing at its end, according to {STATUS}")
    if status["status"] == "finished" and file.stat().st_size != counted:
        raise ValueError(f"{file}: ends in half a line, although the run is finished")
    evaluations = groupby(map(_row, reversed(lines)), lambda row: row["round"])  # the last one first
    return [row for _, evaluation in islice(evaluations, 1) for row in evaluation][::-1]


def last_checksum(file: Path, size: int | None = None) -> int:
    """The checksum of the last whole row of metrics.jsonl, or of the last within its first `size` bytes."""
    lines = ending(file, size)[1].splitlines(keepends=True)
    return checksums.stated(lines[-1]) if lines else checksums.begin(checksums.id_of(file.parent))


def ending(file: Path, size: int | None = None) -> tuple[int, bytes]:
    """Where the end of the first `size` bytes of a file begins, and what whole lines end from there on."""
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END) if size is None else size
        begin = stream.seek(max(0, size - _TAIL))
        content = stream.read(size - begin)
    return begin, content[: content.rfind(b"\n") + 1]


def _row(line: bytes) -> Row:
    row = json.loads(line)
    del row[checksums.KEY]
    return row
