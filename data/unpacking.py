"""The content of a file, packed or not."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from common.errors import DataError
from common.files import regular

PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""What unpacks a file whose name ends so."""


@contextmanager
def unpacked(file: Path, source: object) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacked where its name ends as in PACKED.

    source: what to call it in messages. Raises DataError where it cannot be read or is damaged.
    """
    try:
        with PACKED.get(file.suffix, open)(regular(file), "rb") as stream:
            yield stream
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the file system, not of an archive
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        raise DataError(f"{source} is truncated or not an archive ({error}): fetch it again") from error
