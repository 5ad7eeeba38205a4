"""Decoded arrays kept in files."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np

from common.errors import DataError, RunError
from common.lock import held
from data.dataset import digest

PATIENCE = 3600.0  # seconds to wait for another process: a large download on a slow line

Arrays = dict[str, np.ndarray]

_ABOUT = "about.json"  # the names of the arrays in order, and their hash


def cached(folder: Path, build: Callable[[], Arrays], sha256: str | None = None, source: str = "") -> Arrays:
    """The arrays that `build()` returns, mapped from the .npy files in `folder` if they are there, else stored there.

    Processes that read them share one copy. A process that writes into a mapped array has that page for itself; the
    file stays as it is. Of several processes that ask at once one builds and the others wait. What is read is checked
    by its content hash, and built anew where that differs. Nothing is stored where the place cannot be written to.

    folder: its name must change whenever the arrays would.
    sha256: the content hash (see `digest`) of the arrays; None to rely on the one stored with them.
    source: the hash of what they are built from, where their own is not known.
    Raises what `build` raises, and DataError where another process does not let go, or the file system does not lock.
    """
    arrays = _read(folder, sha256, source)
    if arrays is not None:
        return arrays
    with ExitStack() as lock:
        try:
            with suppress(OSError):  # where no lock can be made nothing is stored either
                folder.parent.mkdir(parents=True, exist_ok=True)
                lock.enter_context(held(folder.with_name(f"{folder.name}.lock"), "data set", "data_dir", PATIENCE))
        except RunError as error:
            raise DataError(str(error)) from error
        arrays = _read(folder, sha256, source)  # another process may have stored them while this one waited
        if arrays is None:
            arrays = build()
            if _write(folder, arrays, source):
                arrays = _read(folder, sha256, source) or arrays
    return arrays


def _read(folder: Path, sha256: str | None, source: str) -> Arrays | None:
    try:
        about = json.loads((folder / _ABOUT).read_text())
        # Copied where they are written to: torch takes no array that is read-only without a warning.
        arrays = {
            name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))
            for name in about["arrays"]
        }
    except (OSError, ValueError, KeyError):
        return None
    expected = {"sha256": sha256 or about["sha256"], "source": source}
    return arrays if {"sha256": digest(arrays.values()), "source": about["source"]} == expected else None


def _write(folder: Path, arrays: Arrays, source: str) -> bool:
    """Whether they are there now: what else lies in the folder is older."""
    for left in folder.parent.glob(f".{folder.name}.*.tmp"):  # by a process that was killed: the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    temporary = folder.with_name(f".{folder.name}.{uuid4().hex}.tmp")
    about = {"sha256": digest(arrays.values()), "source": source, "arrays": list(arrays)}
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
