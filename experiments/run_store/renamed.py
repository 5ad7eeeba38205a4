"""A run's folder under another id."""

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from common.files import atomic
from experiments.run_store import parts
from plots.runs.checksums import renew


def copy(source: Path, target: Path, change: Callable[[Path], object]) -> None:
    """Copy a finished run's folder to the id that `target` names, all of it or nothing.

    change: called with the copy before its checksums are renewed, which are then those of the new id; so is what its
    checkpoint says that it is of. Raises OSError, also where the target is there, and ValueError where a file is not
    as it was written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".copy-", dir=target.parent) as scratch:
        copied = Path(shutil.copytree(source, Path(scratch, target.name), ignore=shutil.ignore_patterns(".lock")))
        change(copied)
        renew(copied)
        for file in (copied / "checkpoint").glob("*/*.pt"):
            t = int(file.parent.name)
            tensors = parts.read(source / "checkpoint", t, file.stem)
            with atomic(file) as whole:
                count = parts.servers(source / "checkpoint", t) if file.stem == "shared" else 0
                about = parts.about(copied / "checkpoint", t, file.stem, count)
                parts.write(whole, about, memoryview(tensors))
        copied.rename(target)
