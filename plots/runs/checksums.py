"""Checksums in a run's files. They detect damage, edits and files of another run.

Every file ends in the CRC-32 of the text before it, started from the run's id: in the last key of a JSON object, in
the last comment of a YAML file. A row of metrics.jsonl has one in its last key, started from the previous row's, so
that missing, doubled and exchanged rows are detected.
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
"""The most bytes read from a JSON or YAML file, and from a row. A longer one fails its checksum."""

_DIGITS = 8  # of a checksum, hexadecimal
_JSON, _YAML, _ROW = b'"\n}\n', b"\n", b'"}\n'
"""The text after a checksum."""

END, _ROW_END = _DIGITS + len(_JSON), _DIGITS + len(_ROW)
"""Number of bytes from the start of the checksum to the end, of a JSON file and of a row."""


def id_of(folder: Path) -> str:
    """The id of a folder's run: the folder's name, without the number of a run that was put aside."""
    plain = folder.name not in ("", "..") and not os.path.islink(folder)
    return (folder.name if plain else os.path.basename(os.path.realpath(folder))).partition(".")[0]


def initial_checksum(run: str) -> int:
    """The value that the checksums of a run's files start from."""
    return crc32(run.encode())


def as_json(content: Mapping[str, Any], run: str) -> bytes:
    text = json.dumps({**content, KEY: ""}, indent=2, ensure_ascii=False) + "\n"
    return _append_checksum(text.encode().removesuffix(_JSON), _JSON, initial_checksum(run))


def as_yaml(text: str, run: str) -> bytes:
    """Encode a YAML document, which ends in a new line, as a file of a run."""
    return _append_checksum(f"{text}# {KEY}: ".encode(), _YAML, initial_checksum(run))


def as_row(row: Mapping[str, Any], before: int) -> tuple[bytes, int]:
    """Encode a row of metrics.jsonl. Returns the line and its checksum.

    before: the previous line's checksum, or `initial_checksum`. Raises ValueError for a row that has a column KEY.
    """
    if KEY in row:
        raise ValueError(f"{KEY}: this name is reserved for checksums; give the column another name")
    head = json.dumps({**row, KEY: ""}).encode().removesuffix(_ROW[:-1])
    return _append_checksum(head, _ROW, before), crc32(head, before)


def read(file: Path) -> bytes:
    """Read a JSON or YAML file of a run. Raises ValueError unless its checksum matches its content and run."""
    with require_regular(file).open("rb") as stream:
        content = stream.read(min(LARGEST, os.fstat(stream.fileno()).st_size))  # no larger buffer than needed
    tail = _JSON if content.endswith(_JSON) else _YAML
    if content != _append_checksum(content[: -_DIGITS - len(tail)], tail, initial_checksum(id_of(file.parent))):
        raise ValueError(f"{file}: checksum mismatch: the file was edited, is damaged, or is of another run")
    return content


def verify_rows(lines: Iterable[bytes], file: Path) -> Iterator[bytes]:
    """Yield the complete lines of a metrics.jsonl, each after its checksum is verified. Raises ValueError."""
    last = initial_checksum(id_of(file.parent))
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
    """The checksum of the last complete row of a metrics.jsonl, or of its first `size` bytes."""
    last = initial_checksum(id_of(file.parent))
    for line in file.read_bytes()[:size].splitlines(keepends=True):
        if line.endswith(b"\n"):
            last = crc32(line[:-_ROW_END], last)
    return last


def _append_checksum(head: bytes, tail: bytes, before: int) -> bytes:
    return b"%b%08x%b" % (head, crc32(head, before), tail)
