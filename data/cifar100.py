"""CIFAR-100 from the official archive."""

from pathlib import Path

from data.cache import Arrays
from data.cifar_archives import CIFAR100, open_folder, read_batches
from data.dataset import Images, Place
from data.download import Url, download
from data.pinned import load_pinned

FORMS = (CIFAR100.filename, CIFAR100.base_folder)


def load_cifar100(
    data_dir: Place[str | Path],  # where data sets are looked for and kept
    url: Url = CIFAR100.url,  # the official archive on the web
) -> Images:
    """50000 training and 10000 test images, 32 × 32 × 3, of 100 classes (the fine labels), in the original order.

    This looks in `data_dir` and its `cifar100/` for the archive `cifar-100-python.tar.gz` or its unpacked folder
    `cifar-100-python/`. Otherwise it downloads the archive. torchvision checks the files by MD5.
    """
    sources = [(download, url, CIFAR100.filename)]
    arrays = load_pinned("cifar100", None, data_dir, "cifar100", FORMS, _read, sources)
    return Images("cifar100", **arrays, mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762))


def _read(place: Path) -> Arrays:
    with open_folder(CIFAR100, place) as folder:
        return read_batches(CIFAR100, folder)
