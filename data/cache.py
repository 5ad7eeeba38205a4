"""Decoded arrays kept in files."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from common.errors import DataError, RunError
from common.files import atomic, regular
from common.lock import held
from data.dataset import digest
from data.limits import free_memory

LARGE = 2**28
"""Bytes of arrays that are kept as a folder of .npy files, and mapped into memory."""

PATIENCE = 3600.0  # seconds to wait for another process: a large download on a slow line

Arrays = dict[str, np.ndarray]

_ABOUT = "about.json"  # of a folder: the names of its arrays in order, and their hash


def cached(file: Path, build: Callable[[], Arrays], sha256: str | None = None, source: str = "") -> Arrays:
    """The arrays that `build()` returns, read from `file` (.npz) if it has them, else built and stored in it.

    LARGE ones are stored in a folder instead, called as `file` is without .npz, and mapped from there: processes that
    read them share one copy, which the system drops from memory and reads again as it needs. Whoever writes into a
    mapped array has that page for itself; the file stays as it is.

    Of several processes that ask at once one builds and the others wait. What is read is checked by its
    content hash, and what is damaged is built anew. Where the place cannot be written to, nothing is stored.

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
                if sum(array.nbytes for array in arrays.values()) < LARGE:
                    _write(file, arrays, source)
                elif _write_folder(file.with_suffix(""), arrays, source):
                    with suppress(OSError, ValueError):  # another process may have replaced it
                        arrays, _ = _mapped(file.with_suffix(""))
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
        arrays, stored = _mapped(folder) if (folder := file.with_suffix("")).is_dir() else _loaded(file)
    except Exception:  # a damaged zip file can raise nearly anything
        return None
    expected = _stamp(sha256, source) if sha256 else stored
    return arrays if _stamp(digest(arrays.values()), source) == expected else None


def _loaded(file: Path) -> tuple[Arrays, str]:
    """The arrays in a file, and the stamp that was stored with them. Raises nearly anything where it is damaged."""
    # Opened here because numpy leaves a damaged file open.
    with regular(file).open("rb") as stream, ZipFile(stream) as members:
        # As they are written: what is packed could be any size.
        if any(member.compress_type != ZIP_STORED for member in members.infolist()):
            raise ValueError(f"{file} is packed")
    if file.stat().st_size > free_memory():
        raise MemoryError(file)
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files if name != "sha256"}, str(stored["sha256"])


def _mapped(folder: Path) -> tuple[Arrays, str]:
    """The arrays in a folder, and the stamp that was stored with them. Raises OSError or ValueError."""
    about = json.loads(regular(folder / _ABOUT).read_text())
    files = {name: regular(folder / f"{name}.npy") for name in about["arrays"]}
    # Copied where they are written to: torch takes no array that is read-only without a warning.
    arrays = {name: np.asarray(np.load(file, mmap_mode="c", allow_pickle=False)) for name, file in files.items()}
    return arrays, about["sha256"]


def _stamp(content: str, source: str) -> str:
    return f"{content} of {source}" if source else content


def _write(file: Path, arrays: Arrays, source: str) -> None:
    with suppress(OSError), atomic(file) as temporary, temporary.open("wb") as stream:
        hashed = {"sha256": np.array(_stamp(digest(arrays.values()), source)), **arrays}
        np.savez(stream, **hashed)  # pyright: ignore[reportArgumentType]: none of them is called allow_pickle


def _write_folder(folder: Path, arrays: Arrays, source: str) -> bool:
    """Whether they are there now: what else lies in the folder is older."""
    for left in folder.parent.glob(f".{folder.name}.*.tmp"):  # by a process that was killed: the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}-{uuid4().hex}.tmp")
    about = {"sha256": _stamp(digest(arrays.values()), source), "arrays": list(arrays)}
    try:
        with suppress(OSError):
            temporary.mkdir(parents=True)
            for name, array in arrays.items():
                np.save(temporary / f"{name}.npy", array)
            (temporary / _ABOUT).write_text(json.dumps(about))
            shutil.rmtree(folder, ignore_errors=True)  # damaged, or of another source; who has mapped it keeps it
            os.replace(temporary, folder)
            return True
        return False
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
