"""Checksums in the files of a run's folder, by which damage, edits and files of another run are seen.

Every file ends in the CRC-32 of all that stands before it, begun with the run's id: a JSON object has it as its last
key, a YAML file in a last comment. A row of metrics.jsonl has it as its last key too, begun with that of the row
before, so that rows that are lost, doubled or exchanged are seen.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from common.files import atomic

KEY = "crc32"

_DIGITS = 8  # of a checksum, hexadecimal
_JSON, _YAML, _ROW = b'"\n}\n', b"\n", b'"}\n'
"""What stands behind it."""

_STATED = re.compile(rb'"%b": "([0-9a-f]{%d})"}\n\Z' % (KEY.encode(), _DIGITS))
_LONG = len(f'"{KEY}": "') + _DIGITS + len(_ROW)


def id_of(folder: Path) -> str:
    """The id of the run that a folder holds: the folder's name, up to the number of one that was put aside."""
    return os.path.basename(os.path.realpath(folder)).partition(".")[0]


def begin(run: str) -> int:
    """What the checksums of a run's files begin with."""
    return crc32(run.encode())


def as_json(content: Mapping[str, Any], run: str) -> bytes:
    """An object as a JSON file of a run."""
    text = json.dumps({**content, KEY: ""}, indent=2, ensure_ascii=False) + "\n"
    return _ended(text.encode().removesuffix(_JSON), _JSON, begin(run))


def as_yaml(text: str, run: str) -> bytes:
    """A YAML document, which ends in a new line, as a file of a run."""
    return _ended(f"{text}# {KEY}: ".encode(), _YAML, begin(run))


def as_row(row: Mapping[str, Any], before: int) -> tuple[bytes, int]:
    """A line of metrics.jsonl and its checksum; `before` is that of the line before, or of a first one `begin`'s.

    Raises ValueError for a row that has such a column itself.
    """
    if KEY in row:
        raise ValueError(f"{KEY}: a column cannot be called as a row's checksum is; give it another name")
    head = json.dumps({**row, KEY: ""}).encode().removesuffix(_ROW[:-1])
    return _ended(head, _ROW, before), crc32(head, before)


def verify(content: bytes, run: str) -> None:
    """Raise ValueError unless a JSON or YAML file ends in the checksum of its content and run."""
    tail = _JSON if content.endswith(_JSON) else _YAML
    if content != _ended(content[: -_DIGITS - len(tail)], tail, begin(run)):
        raise ValueError("its checksum is not that of its content: it was edited or damaged, or is of another run")


def verify_rows(lines: Iterable[bytes], file: Path) -> Iterator[bytes]:
    """The whole lines of a metrics.jsonl from its first one on, each after its checksum is verified.

    Raises ValueError, naming the line, where one is wrong.
    """
    last = begin(id_of(file.parent))
    for number, line in enumerate(lines, start=1):
        following = after(line, last)
        if following is None:
            raise wrong_row(f"{file}, line {number}")
        last = following
        yield line


def wrong_row(place: str) -> ValueError:
    """What to raise where a row's checksum is not the one that it must have."""
    return ValueError(
        f"{place}: its checksum is not that of its content and of the rows before it: one was edited or damaged, is "
        "missing or out of place, or the file is of another run"
    )


def stated(line: bytes) -> int | None:
    """The checksum that a whole line of metrics.jsonl says it has; None where it says none."""
    found = _STATED.search(line, max(0, len(line) - _LONG))
    return int(found[1], 16) if found else None


def after(line: bytes, before: int) -> int | None:
    """The checksum that a whole line must have behind a line with the checksum `before`; None where it has not."""
    checksum = crc32(line[: -_DIGITS - len(_ROW)], before)
    return checksum if line.endswith(b"%08x%b" % (checksum, _ROW)) else None


def renew(folder: Path, run: str | None = None) -> None:
    """Give every file of a run's folder the checksums of what it holds now, whatever that is.

    For whoever changes such files on purpose. run: the id that they are of, the folder's name unless said.
    Raises OSError, and ValueError where a file is not JSON.
    """
    run = id_of(folder) if run is None else run
    last, metrics, config = begin(run), folder / "metrics.jsonl", folder / "config.yaml"
    if metrics.exists():
        *lines, half = metrics.read_bytes().split(b"\n")
        for number, line in enumerate(lines):
            lines[number], last = as_row(_without(line), last)
        _write(metrics, b"".join(lines) + half)
    for file in folder.glob("*.json"):
        content = _without(file.read_bytes())
        if file.name == "status.json":
            content["last_row"] = f"{last:08x}"
        _write(file, as_json(content, run))
    if config.exists():
        _write(config, as_yaml(config.read_bytes().decode().partition(f"# {KEY}: ")[0], run))


def _without(text: bytes) -> dict[str, Any]:
    content = json.loads(text)
    content.pop(KEY, None)
    return content


def _ended(head: bytes, tail: bytes, before: int) -> bytes:
    return b"%b%08x%b" % (head, crc32(head, before), tail)


def _write(target: Path, content: bytes) -> None:
    with atomic(target) as file:
        file.write_bytes(content)
