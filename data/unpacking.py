"""The text of a file, packed or not."""

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common.errors import DataError
from common.files import regular
from data.limits import in_words

PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""What unpacks a file whose name ends so."""

PIECE = 2**22
"""Bytes of text that are read at once."""

RATIO = 100
"""Bytes of text that a compressed byte may stand for: the LibSVM sets have 10 to 35, bombs a thousand and more."""

SMALL = 2**24
"""Bytes of text below which the ratio does not count."""


def pieces(file: Path, source: object, size: int = PIECE) -> Iterator[bytes]:
    """The text of a file, packed or not, `size` bytes at a time; packed is one whose name ends as in PACKED.

    source: what to call it in messages. Raises DataError where it cannot be read, is damaged, or is longer than RATIO
    times what it is packed in.
    """
    try:
        packed = regular(file).stat().st_size
        most = max(SMALL, RATIO * packed) if file.suffix in PACKED else sys.maxsize
        seen = 0
        with PACKED.get(file.suffix, open)(file, "rb") as stream:
            while piece := stream.read(size):
                seen += len(piece)
                if seen > most:
                    raise DataError(
                        f"{source}: its {in_words(packed)} unpack to more than {in_words(most)}, the most that is "
                        f"read of so few ({RATIO} times as much); if it is what it should be, unpack it by hand"
                    )
                yield piece
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the file system, not of an archive
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        raise DataError(f"{source} is truncated or not an archive ({error}): fetch it again") from error
