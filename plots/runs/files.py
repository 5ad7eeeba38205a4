"""What the files in a run's folder hold, after their checksums are verified.

All raise ValueError, naming the file and what is wrong with it, where one is damaged, and OSError.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from plots.runs import checksums
from plots.runs.checksums import id_of

METRICS, CONFIG, STATUS = "metrics.jsonl", "config.yaml", "status.json"

SMALL = (CONFIG, "code.json", "environment.json", STATUS, "summary.json")
"""The files of a run besides its rows and its checkpoint."""

BEGUN, FINISHED = (*SMALL[:4], METRICS), (*SMALL, METRICS)
"""Those of a run that has a status, and of one that is finished."""

_TAIL = 1 << 16  # bytes, more than an evaluation's rows
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ENTRY = re.compile(rb"^(?=\w+:)", re.MULTILINE)  # where one of a block mapping begins
_CHECKSUM = re.compile(rb"^# %b: \w+\n\Z" % checksums.KEY.encode(), re.MULTILINE)

Row = dict[str, Any]


def read_small(folder: Path) -> dict[str, bytes]:
    """What those of SMALL hold that are there."""
    contents, run = {}, id_of(folder)
    for name in SMALL:
        file = folder / name
        with suppress(FileNotFoundError):
            contents[name] = file.read_bytes()
            _verify(file, contents[name], run)
    return contents


def read_json(file: Path) -> dict[str, Any]:
    """An object of JSON, without its checksum."""
    content = file.read_bytes()
    _verify(file, content, id_of(file.parent))
    return parsed(file, content)


def parsed(file: Path, content: bytes) -> dict[str, Any]:
    """The object in what was read from a JSON file, without its checksum."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: damaged ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file}: damaged (not an object)")
    found.pop(checksums.KEY, None)
    return found


def configuration(file: Path, content: bytes) -> dict[str, Any]:
    """A run's configuration, in which what all readers use is there and of its kind. It is not to be changed: runs
    may share parts of it."""
    try:
        config = _document(content)
        task, algorithm = config["task"], config["algorithm"]
        numbers = (config["rounds"], config["seed"], config["cluster"]["workers"], *config["lr"])
        looks = (algorithm["display"][key] for key in ("label", "color", "marker"))
        names = (task["name"], algorithm["name"], config["compressor"]["_target_"], task["display"]["label"], *looks)
        for values, kind, what in ((numbers, int | float, "number"), (names, str, "name")):
            for value in values:
                if not isinstance(value, kind):
                    raise TypeError(f"{value!r} where a {what} must stand")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{file}: damaged ({reason})") from error
    return config


def whole_rows(folder: Path, status: Mapping[str, Any]) -> Iterator[bytes]:
    """The whole lines of metrics.jsonl, one after the other; they are verified once the last one is taken.

    A run may be in the middle of a line. status: what status.json says, which counts on rows that must be there.
    """
    file, finished, counted = folder / METRICS, status.get("status") == "finished", _counted(status)
    there = not counted
    with file.open("rb") as stream:
        for line in checksums.verify_rows(_whole(stream, file, finished), file):
            there = line.endswith(counted) or (there and not finished)
            yield line
    if not there:
        _require_none(file, status)


def read_rows(folder: Path) -> Iterator[Row]:
    """Every whole row of a run, without its checksum, one after the other."""
    return (_row(folder / METRICS, line) for line in whole_rows(folder, {}))


def last_rows(folder: Path, status: Mapping[str, Any]) -> list[Row]:
    """The rows of the last evaluation, verified, read from the end of metrics.jsonl."""
    file = folder / METRICS
    try:
        begin, tail = ending(file)
    except FileNotFoundError:
        return []
    lines = tail.splitlines(keepends=True)[bool(begin) :]
    rows: list[Row] = []
    for number in range(len(lines) - 1, -1, -1):
        row = _row(file, lines[number])
        if rows and row.get("round") != rows[-1].get("round"):
            break
        before = checksums.stated(lines[number - 1]) if number else checksums.begin(id_of(folder))
        if (number or not begin) and (before is None or checksums.after(lines[number], before) is None):
            raise checksums.wrong_row(str(file))
        rows.append(row)
    counted, state = _counted(status), status.get("status")
    there = state == "running" or tail.endswith(counted)  # of one under way it may be far back
    if not there and state != "finished":
        there = counted in tail or (begin > 0 and _holds(file, counted))
    if not there:
        _require_none(file, status)
    return rows[::-1]


def last_checksum(file: Path, size: int | None = None) -> int:
    """The checksum of the last whole row of metrics.jsonl, or of the last within its first `size` bytes."""
    *_, last = [b"", *ending(file, size)[1].splitlines(keepends=True)]
    stated = checksums.stated(last)
    return checksums.begin(id_of(file.parent)) if stated is None else stated


def _document(content: bytes) -> Any:
    """What a YAML document holds. Of a mapping each entry is parsed apart, and once for all documents that have it:
    thousands of runs differ in few of theirs, and YAML is slow."""
    try:
        nothing, *texts = _ENTRY.split(_CHECKSUM.sub(b"", content))
        entries = [_entry(text) for text in texts]
        if not nothing and b"\n..." not in content and all(len(entry) == 1 for entry in entries):
            return {key: value for entry in entries for key, value in entry.items()}
    except (yaml.YAMLError, AttributeError, TypeError):  # entries that need each other, or something else
        pass
    return yaml.load(content, Loader=_Loader)


@lru_cache(maxsize=1 << 12)
def _entry(text: bytes) -> Any:
    return yaml.load(text, Loader=_Loader)


def _verify(file: Path, content: bytes, run: str) -> None:
    try:
        checksums.verify(content, run)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def ending(file: Path, size: int | None = None) -> tuple[int, bytes]:
    """Where the end of the first `size` bytes of a file begins, and what whole lines end from there on."""
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END) if size is None else size
        begin = stream.seek(max(0, size - _TAIL))
        content = stream.read(size - begin)
    return begin, content[: content.rfind(b"\n") + 1]


def _row(file: Path, line: bytes) -> Row:
    try:
        row = json.loads(line)
        row.pop(checksums.KEY, None)
        _ = row.get("round", 0) >= 0
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file}: damaged (no row of a run: {line[:60]!r})") from error
    return row


def _whole(stream: Iterable[bytes], file: Path, finished: bool) -> Iterator[bytes]:
    """The lines of a file, without half of one at its end."""
    for line in stream:
        if line.endswith(b"\n"):
            yield line
        elif finished:
            raise ValueError(f"{file}: ends in half a line, though the run is finished")


def _counted(status: Mapping[str, Any]) -> bytes:
    """What the last of the rows that status.json counts on ends in; nothing where it does not say."""
    last = status.get("last_row")
    return b"" if last is None else f'"{checksums.KEY}": "{last}"}}\n'.encode()


def _holds(file: Path, end: bytes) -> bool:
    """Whether a line ends so; the file is not held in memory."""
    with file.open("rb") as stream:
        return any(line.endswith(end) for line in stream)


def _require_none(file: Path, status: Mapping[str, Any]) -> None:
    """Raise ValueError unless status.json was written when there was no row yet."""
    if status["last_row"] != f"{checksums.begin(id_of(file.parent)):08x}":
        raise ValueError(f"{file}: rows at its end are missing, which {STATUS} counts on")
