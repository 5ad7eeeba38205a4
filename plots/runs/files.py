"""Read the files in a run's folder and verify their checksums.

All functions raise OSError, and ValueError for a damaged file, with its name and the damage.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial, reduce
from itertools import groupby, islice
from operator import or_
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import from_json

from common.files import require_regular
from plots.runs import checksums

CONFIG, ENVIRONMENT, STATUS, METRICS = "config.yaml", "environment.json", "status.json", "metrics.jsonl"
FILES = (CONFIG, "code.json", ENVIRONMENT, STATUS, METRICS, "summary.json")
"""The files of a finished run besides its checkpoint. An unfinished run has no summary."""

LARGEST, LONGEST, DEEPEST = 2**17, 2000, 20
"""Limits of a configuration: its bytes, the characters of a value, and its levels."""

Row = dict[str, Any]


def read_yaml(content: bytes, file: Path) -> Any:
    """Parse a run's configuration. Its size, depth and aliases are checked before any object is built.

    Runs of a sweep differ in few keys, so the text of a top-level key is parsed once. Runs share its value, so do not
    change it.
    """
    texts = re.split(rb"\n(?:#.*\n)?(?=\w+:|\Z)", content)  # without the comment at the end
    try:
        parts = [*map(_parse, texts)] if len(content) <= LARGEST else [None]
        if None not in parts:
            return reduce(or_, parts)
    except (TypeError, yaml.YAMLError) as error:
        raise ValueError(f"{file}: not YAML") from error
    raise ValueError(f"{file}: larger or deeper than a configuration may be, or with aliases")


@lru_cache(1024)
def _parse(text: bytes) -> Any:
    """The value of a YAML document; None beyond the limits."""
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        is_long = isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST
        if depth > DEEPEST or is_long or isinstance(event, yaml.AliasEvent):
            return None
    return yaml.load(text, yaml.CSafeLoader) or {}


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object without its checksum. Equal files are parsed once and share their values."""
    return dict(_object(checksums.read(file)[: -checksums.END]))


@lru_cache(128)
def _object(begin: bytes) -> dict[str, Any]:
    content = from_json(begin + b'"}')
    del content[checksums.KEY]
    return content


def read_lines(folder: Path) -> Iterator[bytes]:
    """Yield the verified lines of metrics.jsonl. An incomplete last line is left out: a run may be writing it."""
    file = folder / METRICS
    with require_regular(file).open("rb") as stream:
        yield from checksums.verify_rows(iter(partial(stream.readline, checksums.LONGEST), b""), file)


def read_rows(folder: Path) -> Iterator[Row]:
    """Yield the complete rows of a run without their checksums."""
    return map(_row, read_lines(folder))


def all_lines(folder: Path, status: Mapping[str, Any]) -> list[bytes]:
    """Read the verified lines of metrics.jsonl.

    status: the content of status.json. Raises ValueError if metrics.jsonl has fewer bytes than it counts, or more in
    a finished run.
    """
    file, lines, counted = folder / METRICS, [*read_lines(folder)], status.get("metrics_size", 0)
    if sum(map(len, lines)) < counted:
        raise ValueError(f"{file}: rows are missing at its end, according to {STATUS}")
    if status["status"] == "finished" and file.stat().st_size != counted:
        raise ValueError(f"{file}: ends in half a line, although the run is finished")
    return lines


def last_rows(lines: Sequence[bytes]) -> list[Row]:
    """The rows of the last evaluation among these lines."""
    evaluations = groupby(map(_row, reversed(lines)), lambda row: row["round"])  # the last one first
    return [row for _, evaluation in islice(evaluations, 1) for row in evaluation][::-1]


def _row(line: bytes) -> Row:
    row = from_json(line)
    del row[checksums.KEY]
    return row
