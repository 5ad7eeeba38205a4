"""Decoded arrays kept in files."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from common.errors import DataError, RunError
from common.files import atomic, regular
from common.lock import held
from data.dataset import digest
from data.limits import free_memory

PATIENCE = 3600.0  # seconds to wait for another process: a large download on a slow line

Arrays = dict[str, np.ndarray]


def cached(file: Path, build: Callable[[], Arrays], sha256: str | None = None, source: str = "") -> Arrays:
    """The arrays that `build()` returns, read from `file` (.npz) if it has them, else built and stored in it.

    Of several processes that ask at once one builds and the others wait. What is read is checked by its
    content hash, and a damaged file is built anew. Where the folder cannot be written to, nothing is stored.

    file: its name must change whenever the arrays would.
    sha256: the content hash (see `digest`) of the arrays; None to rely on the one stored with them.
    source: the hash of what they are built from, where their own is not known; what was built from something else is
    built anew.
    Raises what `build` raises, and DataError where another process does not let go, or the file system does not lock.
    """
    arrays = _read(file, sha256, source)
    if arrays is None:
        with _locked(file.with_suffix(".lock")):
            # Another process may have stored them while this one waited.
            arrays = _read(file, sha256, source)
            if arrays is None:
                arrays = build()
                _write(file, arrays, source)
    return arrays


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock `file`. Where it cannot be made there is none, and none is needed: nothing is stored there.

    It stays behind: removing it would let two processes hold it at once.
    """
    with ExitStack() as lock:
        try:
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                lock.enter_context(held(file, "data set", "data_dir", PATIENCE))
        except RunError as error:
            raise DataError(str(error)) from error
        yield


def _read(file: Path, sha256: str | None, source: str) -> Arrays | None:
    try:
        # Opened here because numpy leaves a damaged file open.
        with regular(file).open("rb") as stream, ZipFile(stream) as members:
            # As they are written: what is packed could be any size.
            if any(member.compress_type != ZIP_STORED for member in members.infolist()):
                return None
        if file.stat().st_size > free_memory():
            return None
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files if name != "sha256"}
            expected = _stamp(sha256, source) if sha256 else str(stored["sha256"])
    except Exception:  # a damaged zip file can raise nearly anything
        return None
    return arrays if _stamp(digest(arrays.values()), source) == expected else None


def _stamp(content: str, source: str) -> str:
    return f"{content} of {source}" if source else content


def _write(file: Path, arrays: Arrays, source: str) -> None:
    with suppress(OSError), atomic(file) as temporary, temporary.open("wb") as stream:
        hashed = {"sha256": np.array(_stamp(digest(arrays.values()), source)), **arrays}
        np.savez(stream, **hashed)  # pyright: ignore[reportArgumentType]: none of them is called allow_pickle
