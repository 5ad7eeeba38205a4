"""Checksums in the files of a run's folder, which show damage, edits and files of another run.

Every file ends in the CRC-32 of all that stands before it, begun with the run's id: a JSON object has it as its last
key, a YAML file in a last comment. A row of metrics.jsonl has it as its last key too, begun with that of the row
before, so that missing, doubled and exchanged rows are seen.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from common.files import require_regular

KEY = "crc32"

LARGEST, LONGEST = 2**24, 2**20
"""The most bytes that are read of a JSON or YAML file, and of a row. The checksum of a longer one does not match."""

_DIGITS = 8  # of a checksum, hexadecimal
_JSON, _YAML, _ROW = b'"\n}\n', b"\n", b'"}\n'
"""What stands behind it."""

END, _ROW_END = _DIGITS + len(_JSON), _DIGITS + len(_ROW)
"""Number of bytes from the start of the checksum to the end, of a JSON file and of a row."""


def id_of(folder: Path) -> str:
    """The id of the run that a folder holds: the folder's name, without the number of one that was put aside."""
    plain = folder.name not in ("", "..") and not os.path.islink(folder)
    return (folder.name if plain else os.path.basename(os.path.realpath(folder))).partition(".")[0]


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
    with require_regular(file).open("rb") as stream:
        content = stream.read(min(LARGEST, os.fstat(stream.fileno()).st_size))  # no larger buffer than needed
    tail = _JSON if content.endswith(_JSON) else _YAML
    if content != _ended(content[: -_DIGITS - len(tail)], tail, begin(id_of(file.parent))):
        raise ValueError(f"{file}: checksum mismatch: the file was edited, is damaged, or is of another run")
    return content


def verify_rows(lines: Iterable[bytes], file: Path) -> Iterator[bytes]:
    """Yield the whole lines of a metrics.jsonl, each after its checksum is verified. Raises ValueError."""
    last = begin(id_of(file.parent))
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            break
        last = crc32(line[:-_ROW_END], last)
        if line[-_ROW_END:] != b'%08x"}\n' % last:
            raise ValueError(
                f"{file}, line {number}: checksum mismatch: this row or one before it was edited, "
                "damaged, removed or moved, or the file is of another run"
            )
        yield line


def last_checksum(file: Path, size: int | None = None) -> int:
    """The checksum of the last whole row of a metrics.jsonl, or of the last within its first `size` bytes."""
    last = begin(id_of(file.parent))
    for line in file.read_bytes()[:size].splitlines(keepends=True):
        if line.endswith(b"\n"):
            last = crc32(line[:-_ROW_END], last)
    return last


def _ended(head: bytes, tail: bytes, before: int) -> bytes:
    return b"%b%08x%b" % (head, crc32(head, before), tail)
