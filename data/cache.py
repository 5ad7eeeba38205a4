"""Decoded arrays kept in files."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from common.errors import DataError, RunError
from common.files import hold_lock
from data.dataset import digest

PATIENCE = 3600.0  # seconds to wait for another process: a large download on a slow line

Arrays = dict[str, np.ndarray]

_ABOUT = "about.json"  # the names of the arrays in order, and their hash


def load_cached(folder: Path, build: Callable[[], Arrays], sha256: str | None = None, file_hash: str = "") -> Arrays:
    """Map the arrays from the .npy files in `folder`. If they are missing, call `build()` and store its arrays there.

    Processes that read them share one copy. A write into a mapped array copies that page for the process; the file
    does not change. If several processes ask at once, one builds and the others wait. The content hash is checked
    at every read, and a mismatch builds the arrays again. In a read-only place nothing is stored.

    folder: its name must change when the arrays do.
    sha256: the content hash (see `digest`) of the arrays. None: rely on the hash that is stored with them.
    file_hash: the hash of the file that the arrays were decoded from. The stored hash covers it.
    Raises what `build` raises, and DataError if another process keeps the lock or the file system cannot lock.
    """
    arrays = _read(folder, sha256, file_hash)
    if arrays is not None:
        return arrays
    with ExitStack() as lock:
        try:
            with suppress(OSError):  # if no lock can be made, nothing is stored either
                folder.parent.mkdir(parents=True, exist_ok=True)
                file = folder.with_name(f"{folder.name}.lock")
                lock.enter_context(hold_lock(file, "data set", "data_dir", PATIENCE))
        except RunError as error:
            raise DataError(str(error)) from error
        arrays = _read(folder, sha256, file_hash)  # another process may have stored them while this one waited
        if arrays is None:
            arrays = build()
            _write(folder, arrays, file_hash)
            arrays = _read(folder, digest(arrays.values()), file_hash) or arrays
    return arrays


def _stamp(file_hash: str, content_hash: str) -> str:
    return hashlib.sha256(f"{file_hash} {content_hash}".encode()).hexdigest()


def _read(folder: Path, sha256: str | None, file_hash: str) -> Arrays | None:
    try:
        about = json.loads((folder / _ABOUT).read_text())
        # Mapped copy-on-write, because torch warns of read-only arrays.
        arrays = {
            name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))
            for name in about["arrays"]
        }
        found = digest(arrays.values())
        is_same = found == sha256 or (sha256 is None and _stamp(file_hash, found) == about["sha256"])
        return arrays if is_same else None
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _write(folder: Path, arrays: Arrays, file_hash: str) -> None:
    temporary = folder.with_name(f".{folder.name}.tmp")  # only the holder of the lock writes
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with suppress(OSError):
            temporary.mkdir()
            for name, array in arrays.items():
                np.save(temporary / f"{name}.npy", array)
            about = {"sha256": _stamp(file_hash, digest(arrays.values())), "arrays": list(arrays)}
            (temporary / _ABOUT).write_text(json.dumps(about))
            shutil.rmtree(folder, ignore_errors=True)  # it is damaged; processes that mapped it keep their pages
            os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
