"""Files that appear whole or not at all, and decoded arrays kept in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
from filelock import FileLock, Timeout

from data.digest import digest
from data.errors import DataError

PATIENCE = 3600.0  # seconds to wait for another process: a large download on a slow line

Arrays = dict[str, np.ndarray]


@contextmanager
def atomic(target: Path) -> Iterator[Path]:
    """Give a path to write to that becomes `target` if the with-block ends well, and is removed if not.

    Readers of `target` see the old file or the whole new one.
    Raises OSError where the folder cannot be written to.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # Not the tempfile module: its files are readable by their owner alone, and data folders are shared.
    temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def locked(file: Path) -> AbstractContextManager[object]:
    """Hold the lock `file` against other processes and threads through a with-block.

    The file stays behind, empty: removing it would let two processes hold it at once. Where it cannot be made
    there is no lock, and none is needed: nothing else can be written there either.
    Raises DataError after waiting for PATIENCE seconds.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(file, timeout=PATIENCE).acquire()
    except Timeout as error:
        raise DataError(
            f"another process has held {file} for {PATIENCE:.0f} seconds: end it, or wait and run again"
        ) from error
    except OSError:
        return nullcontext()


def cached(file: Path, build: Callable[[], Arrays], sha256: str | None = None) -> Arrays:
    """The arrays that `build()` returns, read from `file` (.npz) if it has them, else built and stored in it.

    Of several processes that ask at once one builds and the others wait. What is read is checked by its
    content hash, and a damaged file is built anew. Where the folder cannot be written to, nothing is stored.

    file: its name must change whenever the arrays would.
    sha256: the content hash (see `digest`) of the arrays; None to rely on the one stored with them.
    """
    arrays = _read(file, sha256)
    if arrays is None:
        with locked(file.with_suffix(".lock")):
            # Another process may have stored them while this one waited.
            arrays = _read(file, sha256)
            if arrays is None:
                arrays = build()
                _write(file, arrays)
    return arrays


def _read(file: Path, sha256: str | None) -> Arrays | None:
    try:
        # Opened here because numpy leaves a damaged file open.
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files if name != "sha256"}
            expected = sha256 or str(stored["sha256"])
    except Exception:  # a damaged zip file can raise nearly anything
        return None
    return arrays if digest(arrays.values()) == expected else None


def _write(file: Path, arrays: Arrays) -> None:
    with suppress(OSError), atomic(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, sha256=np.array(digest(arrays.values())), **arrays)
