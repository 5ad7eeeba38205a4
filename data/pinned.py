"""Data sets that are known by their content: looked for in files, else fetched, and believed once it is checked."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from common.errors import DataError
from data.cache import Arrays, cached
from data.dataset import digest

PACKED = (".gz", ".bz2", ".xz")
"""How names of packed files end. Their first bytes, not their names, say how they are packed."""

_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}

Source = tuple[Callable[..., Arrays], str, str]
"""`download` or `pack`, what to fetch, and what the file is called."""


@contextmanager
def unpacked(file: Path, source: object) -> Iterator[IO[bytes]]:
    """Open a text for reading, unpacked where it is packed by gzip, bzip2 or xz.

    source: what to call it in messages. Raises DataError where it cannot be read, is damaged or is no text.
    """
    try:
        with file.open("rb") as packed:
            head = packed.read(6)
        opened = next((unpack for magic, unpack in _OPENERS.items() if head.startswith(magic)), open)
        with opened(file, "rb") as stream:
            if b"\0" in stream.peek(512):
                raise DataError(f"{source} is neither text nor packed by gzip, bzip2 or xz: unpack it first")
            yield stream
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the file system, not of an archive
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        raise DataError(f"{source} cannot be unpacked ({error}): fetch it again, or unpack it by hand") from error


def pinned(
    name: str,
    sha256: str | None,
    data_dir: str | Path,
    folder: str,
    forms: Sequence[str],
    read: Callable[[Path], Arrays],
    sources: Sequence[Source],
) -> Arrays:
    """The arrays of a set, whose content hash (see `digest`) is `sha256`. None: `read` checks the content itself.

    In `data_dir` they are looked for decoded (`cache/`), then, in it or in its `folder`, as one of the files and
    folders called `forms`, which `read` reads; else fetched into `folder`, from the first source that has them. A
    read-only `data_dir` will do.
    Raises DataError where files are damaged or of other content, and where no source gives them.
    """
    base = Path(data_dir).expanduser()
    check = partial(_checked, name, sha256, read)

    def obtained() -> Arrays:
        _, address, file = sources[0]
        for place in (parent / form for parent in (base, base / folder) for form in forms):
            if place.exists():
                return check(place, source=place, remedy=f"put {file} from {address} there instead")
        failures = []
        for fetch, address, file in sources:
            target = base / folder / file
            remedy = f"it was not kept; fetch the set elsewhere and put it at {target}"
            try:
                return fetch(address, target, partial(check, source=address, remedy=remedy))
            except DataError as error:
                failures.append(str(error))
        raise DataError("; ".join(failures))

    return cached(base / "cache" / (f"{name}-{sha256[:12]}" if sha256 else name), obtained, sha256)


def _checked(
    name: str, sha256: str | None, read: Callable[[Path], Arrays], place: Path, source: object, remedy: str
) -> Arrays:
    try:
        arrays = read(place)
    except Exception as error:  # damaged archives and pictures can raise nearly anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{source} cannot be read as {name} ({reason}): {remedy}") from error
    if sha256 and (found := digest(arrays.values())) != sha256:
        raise DataError(f"{source} is not {name}: expected content of SHA-256 {sha256}, found {found}: {remedy}")
    return arrays
