"""Read the official archives of CIFAR-10 and CIFAR-100. torchvision checks their batches by MD5."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from common.errors import DataError
from common.files import name_in_errors
from data.cache import Arrays
from data.torchvision_operators import torchvision

CIFAR10, CIFAR100 = torchvision.datasets.CIFAR10, torchvision.datasets.CIFAR100


@contextmanager
def open_folder(kind: type[torchvision.datasets.CIFAR10], place: Path) -> Iterator[Path]:
    """Unpack an archive into a temporary folder named as torchvision expects. A folder is yielded unchanged."""
    if place.is_dir():
        yield place
        return
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, kind.base_folder)
        with tarfile.open(place) as tar:
            for member in tar:
                if member.isfile():
                    member.name = Path(member.name).name  # drop folders, which could lead out of this one
                    with name_in_errors(Path(temporary).parent):
                        tar.extract(member, folder, filter="data")
        yield folder


def read_batches(kind: type[torchvision.datasets.CIFAR10], folder: Path) -> Arrays:
    """Read the images and labels of an official folder, in the original order.

    Raises DataError if a file is missing or not the original.
    """
    try:
        train, test = (kind(folder.parent, train=train) for train in (True, False))
    except RuntimeError as error:
        raise DataError("a file is missing or, by its MD5, not the original") from error
    return {
        "train_images": np.ascontiguousarray(train.data),
        "train_labels": np.array(train.targets, np.uint8),
        "test_images": np.ascontiguousarray(test.data),
        "test_labels": np.array(test.targets, np.uint8),
    }
