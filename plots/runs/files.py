"""What the files in a run's folder hold, after their checksums are verified.

All raise ValueError, naming the file and what is wrong with it, where one is damaged, and OSError.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
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

Row = dict[str, Any]


def read_small(folder: Path) -> tuple[dict[str, bytes], dict[str, bool]]:
    """What those of SMALL hold that are there, and which of them have checksums."""
    contents, checked = {}, {}
    for name in SMALL:
        try:
            contents[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
        checked[name] = _verified(folder / name, contents[name])
    return contents, checked


def read_json(file: Path) -> dict[str, Any]:
    """An object of JSON, without its checksum."""
    content = file.read_bytes()
    _verified(file, content)
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
    """A run's configuration, in which what all readers use is there and of its kind."""
    try:
        config = yaml.load(content, Loader=_Loader)
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


def whole_rows(folder: Path, status: Mapping[str, Any]) -> tuple[bytes, bool]:
    """The whole lines of metrics.jsonl, and whether they have checksums; a run may be in the middle of a line.

    status: what status.json says, which counts on rows that must be there.
    """
    file = folder / METRICS
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    try:
        checked = checksums.verify_rows(whole, id_of(folder))
    except ValueError as error:
        raise ValueError(f"{file}, {error}") from error
    _require_rows(file, whole, status)
    if whole != content and status.get("status") == "finished":
        raise ValueError(f"{file}: ends in half a line, though the run is finished")
    return whole, checked


def read_rows(folder: Path) -> list[Row]:
    """Every whole row of a run, without its checksum."""
    whole, _ = whole_rows(folder, {})
    return [_row(folder / METRICS, line) for line in whole.splitlines()]


def follow(lines: Iterable[bytes], file: Path) -> Iterator[Row]:
    """The rows that whole lines of metrics.jsonl hold, which come one after the other from the first one on."""
    before, checked = checksums.begin(id_of(file.parent)), False
    for number, line in enumerate(lines, start=1):
        stated = checksums.stated(line)
        if checked or stated is not None:
            if stated is None or not checksums.is_right(line, before):
                raise checksums.wrong_row(f"{file}, line {number}")
            before, checked = stated, True
        yield _row(file, line)


def last_rows(folder: Path, status: Mapping[str, Any]) -> tuple[list[Row], bool]:
    """The rows of the last evaluation, and whether they have checksums, read from the end of metrics.jsonl."""
    file = folder / METRICS
    try:
        begin, tail = _tail(file)
    except FileNotFoundError:
        return [], False
    lines = tail.splitlines(keepends=True)[bool(begin) :]
    rows: list[Row] = []
    checked = False
    for number in range(len(lines) - 1, -1, -1):
        row = _row(file, lines[number])
        if rows and row.get("round") != rows[-1].get("round"):
            break
        before = checksums.stated(lines[number - 1]) if number else checksums.begin(id_of(folder))
        checked = checksums.stated(lines[number]) is not None
        if checked and (number or not begin) and not checksums.is_right(lines[number], before or 0):
            raise checksums.wrong_row(str(file))
        rows.append(row)
    if status.get("status") != "running":  # of one under way, all that it counts on may be far back
        whole = tail if not begin or status.get("status") == "finished" else file.read_bytes()
        _require_rows(file, whole, status)
    return rows[::-1], checked


def last_checksum(file: Path, size: int | None = None) -> int:
    """The checksum of the last whole row of metrics.jsonl, or of the last within its first `size` bytes."""
    *_, last = [b"", *_tail(file, size)[1].splitlines(keepends=True)]
    stated = checksums.stated(last)
    return checksums.begin(id_of(file.parent)) if stated is None else stated


def _verified(file: Path, content: bytes) -> bool:
    try:
        return checksums.verify(content, id_of(file.parent))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _tail(file: Path, size: int | None = None) -> tuple[int, bytes]:
    """Where the end of the first `size` bytes of a file begins, and the whole lines from there on."""
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


def _require_rows(file: Path, whole: bytes, status: Mapping[str, Any]) -> None:
    """Raise ValueError unless the rows that status.json counts on are among these, of a finished run at their end."""
    counted = status.get("last_row")
    if counted is None or counted == f"{checksums.begin(id_of(file.parent)):08x}":
        return
    end = f'"{checksums.KEY}": "{counted}"}}\n'.encode()
    if not (whole.endswith(end) if status["status"] == "finished" else end in whole):
        raise ValueError(f"{file}: rows at its end are missing, which {STATUS} counts on")
