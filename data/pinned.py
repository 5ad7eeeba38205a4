"""Data sets pinned by content hash: found in files or fetched, then verified."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from common.errors import DataError, is_disk_full
from common.files import require_regular
from data.cache import Arrays, load_cached
from data.dataset import digest

PACKED = (".gz", ".bz2", ".xz", ".lzma", ".zip")
"""Suffixes of packed files. The format is told from the first bytes."""

_DECODERS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lzma.LZMADecompressor,
    b"]\0\0": lzma.LZMADecompressor,
}

Source = tuple[Callable[..., Arrays], str, str]
"""`download` or `pack`, the address, and the file's name."""


@contextmanager
def open_unpacked(file: Path, source: object) -> Iterator[IO[bytes]]:
    """Open a text for reading, plain or in a gzip, bzip2, xz, lzma or zip archive.

    source: its name in messages. Raises DataError if it cannot be read, is damaged or is not a text.
    """
    try:
        with require_regular(file).open("rb") as packed:
            stream = _open_packed(packed, source)
            if b"\0" in stream.peek(512):
                raise DataError(
                    f"{source} is neither text nor a gzip, bzip2, xz, lzma or zip archive: unpack it first"
                )
            yield stream
    except (OSError, EOFError, lzma.LZMAError, zlib.error, BadZipFile, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # from the file system, not from an archive
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        raise DataError(f"{source} cannot be unpacked ({error}): fetch it again, or unpack it by hand") from error


def _open_packed(packed: BufferedReader, source: object) -> Any:
    head = packed.peek(6)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise DataError(f"{source} is packed by Zstandard: unpack it first, by zstd -d")
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        archive = ZipFile(packed)
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if len(names) != 1:
            raise DataError(f"{source} has {len(names)} files: unpack it, and give one of them")
        return archive.open(names[0])
    for magic, make in _DECODERS.items():
        if head.startswith(magic):
            return BufferedReader(_Decoded(packed, make))
    return packed


class _Decoded(RawIOBase):
    """The content of an archive. Only zeros or another archive may follow it; Python's readers would ignore junk."""

    def __init__(self, packed: IO[bytes], make: Callable[[], Any]) -> None:
        self._pieces, self._left = self._decode(packed, make), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    @staticmethod
    def _decode(packed: IO[bytes], make: Callable[[], Any]) -> Iterator[bytes]:
        decoder, rest = make(), b""
        while piece := rest or packed.read(2**14):
            rest = piece.lstrip(b"\0") if decoder.eof else piece
            if rest:
                decoder = make() if decoder.eof else decoder
                yield decoder.decompress(rest)
                rest = decoder.unused_data
        if not decoder.eof:
            raise EOFError("its end is missing")


def load_pinned(
    name: str,
    sha256: str | None,
    data_dir: str | Path,
    folder: str,
    forms: Sequence[str],
    read: Callable[[Path], Arrays],
    sources: Sequence[Source],
) -> Arrays:
    """Load the arrays of a set with content hash `sha256` (see `digest`). None: `read` checks the content itself.

    This looks for the decoded set in `cache/` of `data_dir`. Then it looks in `data_dir` and its `folder` for a file
    or folder named in `forms`, and reads it by `read`. Otherwise it fetches the set into `folder`, from the first
    source that has it. `data_dir` may be read-only.
    Raises DataError if a file is damaged or has other content, and if no source gives the set.
    """
    base = Path(data_dir).expanduser()
    check = partial(_check, name, sha256, read)

    def obtain() -> Arrays:
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

    return load_cached(base / "cache" / (f"{name}-{sha256[:12]}" if sha256 else name), obtain, sha256)


def _check(
    name: str, sha256: str | None, read: Callable[[Path], Arrays], place: Path, source: object, remedy: str
) -> Arrays:
    try:
        arrays = read(place)
    except Exception as error:  # damaged archives and pictures can raise nearly anything
        if is_disk_full(error):
            raise
        reason = str(error) or type(error).__name__
        raise DataError(f"{source} cannot be read as {name} ({reason}): {remedy}") from error
    if sha256 and (found := digest(arrays.values())) != sha256:
        raise DataError(f"{source} is not {name}: expected content of SHA-256 {sha256}, found {found}: {remedy}")
    return arrays
