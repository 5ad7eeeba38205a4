"""Undoing .gz, .bz2 and .xz."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib

from common.errors import DataError

_ARCHIVES = {
    ".gz": (b"\x1f\x8b", gzip.decompress),
    ".bz2": (b"BZh", bz2.decompress),
    ".xz": (b"\xfd7zXZ\x00", lzma.decompress),
}
SUFFIXES = tuple(_ARCHIVES)


def unpack(raw: bytes, name: str, source: str) -> bytes:
    """The bytes that `raw`, a .gz, .bz2 or .xz archive by its first bytes, holds; `raw` itself if it is none.

    name: the file's name; with an archive's suffix it must be an archive.
    source: what to call the file in messages.
    Raises DataError where the archive is cut short or is none.
    """
    for magic, decompress in _ARCHIVES.values():
        if raw.startswith(magic):
            try:
                return decompress(raw)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise _damaged(source, str(error)) from error
    if name.endswith(SUFFIXES):
        raise _damaged(source, f"it begins with {raw[:6]!r}")
    return raw


def _damaged(source: str, reason: str) -> DataError:
    return DataError(f"{source} is truncated or not an archive ({reason}): fetch it again")
