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
from common.files import held
from data.dataset import digest

PATIENCE = 3600.0  # seconds to wait for another process: a large download on a slow line

Arrays = dict[str, np.ndarray]

_ABOUT = "about.json"  # the names of the arrays in order, and their hash


def cached(folder: Path, build: Callable[[], Arrays], sha256: str | None = None, of: str = "") -> Arrays:
    """The arrays that `build()` returns, mapped from the .npy files in `folder` if they are there, else stored there.

    Processes that read them share one copy. A process that writes into a mapped array has that page for itself; the
    file stays as it is. Of several processes that ask at once one builds and the others wait. What is read is checked
    by its content hash, and built anew where that differs. Nothing is stored where the place cannot be written to.

    folder: its name must change whenever the arrays would.
    sha256: the content hash (see `digest`) of the arrays. None: rely on the hash that is stored with them.
    of: the hash of the file that the arrays were decoded from. The stored hash covers it.
    Raises what `build` raises, and DataError where another process does not let go, or the file system does not lock.
    """
    arrays = _read(folder, sha256, of)
    if arrays is not None:
        return arrays
    with ExitStack() as lock:
        try:
            with suppress(OSError):  # where no lock can be made nothing is stored either
                folder.parent.mkdir(parents=True, exist_ok=True)
                lock.enter_context(held(folder.with_name(f"{folder.name}.lock"), "data set", "data_dir", PATIENCE))
        except RunError as error:
            raise DataError(str(error)) from error
        arrays = _read(folder, sha256, of)  # another process may have stored them while this one waited
        if arrays is None:
            arrays = build()
            _write(folder, arrays, of)
            arrays = _read(folder, digest(arrays.values()), of) or arrays
    return arrays


def _stamp(of: str, found: str) -> str:
    return hashlib.sha256(f"{of} {found}".encode()).hexdigest()


def _read(folder: Path, sha256: str | None, of: str) -> Arrays | None:
    try:
        about = json.loads((folder / _ABOUT).read_text())
        # Copied where they are written to: torch takes no array that is read-only without a warning.
        arrays = {
            name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))
            for name in about["arrays"]
        }
        found = digest(arrays.values())
        return arrays if found == sha256 or (sha256 is None and _stamp(of, found) == about["sha256"]) else None
    except (OSError, ValueError, KeyError):
        return None


def _write(folder: Path, arrays: Arrays, of: str) -> None:
    temporary = folder.with_name(f".{folder.name}.tmp")  # whoever holds the lock writes alone
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with suppress(OSError):
            temporary.mkdir()
            for name, array in arrays.items():
                np.save(temporary / f"{name}.npy", array)
            about = {"sha256": _stamp(of, digest(arrays.values())), "arrays": list(arrays)}
            (temporary / _ABOUT).write_text(json.dumps(about))
            shutil.rmtree(folder, ignore_errors=True)  # damaged; who has mapped it keeps it
            os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
