"""Checksums in the files of a run's folder, which show damage, edits and files of another run.

Every file ends in the CRC-32 of all that stands before it, begun with the run's id: a JSON object has it as its last
key, a YAML file in a last comment. A row of metrics.jsonl has it as its last key too, begun with that of the row
before, so that missing, doubled and exchanged rows are seen.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

KEY = "crc32"

_DIGITS = 8  # of a checksum, hexadecimal
_JSON, _YAML, _ROW = b'"\n}\n', b"\n", b'"}\n'
"""What stands behind it."""

_STATED = re.compile(rb'"%b": "([0-9a-f]{%d})"}\n\Z' % (KEY.encode(), _DIGITS))


def id_of(folder: Path) -> str:
    """The id of the run that a folder holds: the folder's name, without the number of one that was put aside."""
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
        raise ValueError(f"{KEY}: this name is reserved for checksums; give the column another name")
    head = json.dumps({**row, KEY: ""}).encode().removesuffix(_ROW[:-1])
    return _ended(head, _ROW, before), crc32(head, before)


def read(file: Path) -> bytes:
    """A JSON or YAML file of a run. Raises ValueError unless it ends in the checksum of its content and run."""
    content = file.read_bytes()
    tail = _JSON if content.endswith(_JSON) else _YAML
    if content != _ended(content[: -_DIGITS - len(tail)], tail, begin(id_of(file.parent))):
        raise ValueError(f"{file}: checksum mismatch: the file was edited, is damaged, or is of another run")
    return content


def verify_rows(lines: Iterable[bytes], file: Path, before: int | None = None) -> Iterator[bytes]:
    """Whole lines of a metrics.jsonl, each after its checksum is verified.

    before: the checksum of the line before them; None where they begin with the file. Raises ValueError.
    """
    last = begin(id_of(file.parent)) if before is None else before
    for number, line in enumerate(lines, start=1):
        last = crc32(line[: -_DIGITS - len(_ROW)], last)
        if not line.endswith(b"%08x%b" % (last, _ROW)):
            place = f"{file}, line {number}" if before is None else f"{file}, near its end"
            raise ValueError(
                f"{place}: checksum mismatch: this row or one before it was edited, "
                "damaged, removed or moved, or the file is of another run"
            )
        yield line


def stated(line: bytes) -> int:
    """The checksum at the end of a whole line of metrics.jsonl; 0 where it has none."""
    found = _STATED.search(line)
    return int(found[1], 16) if found else 0


def _ended(head: bytes, tail: bytes, before: int) -> bytes:
    return b"%b%08x%b" % (head, crc32(head, before), tail)
