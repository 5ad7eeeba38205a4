"""Small real data sets shipped with scikit-learn."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from data.dataset import Dataset, Images


def breast_cancer() -> Dataset:
    """569 tumours with 30 features, each of mean 0 and variance 1 over the rows. Benign is +1, malignant -1."""
    features, raw = _table("breast_cancer.csv", header=1)
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    return Dataset.from_dense("breast_cancer", standard, raw == 1)


def digits() -> Dataset:
    """1797 handwritten digits of 8 × 8 pixels from 0 to 1. Odd digits are +1, even ones -1."""
    pixels, digit = _table("digits.csv.gz")
    return Dataset.from_dense("digits", pixels / 16, digit % 2 == 1)


def digit_images() -> Images:
    """The same 1797 digits as 8 × 8 images of one channel in 10 classes: 1536 for training, the last 261 for testing.

    The file's pixel values, 0 to 16, are multiplied by 255 / 16 and rounded. mean and std describe the training part.
    """
    pixels, digit = _table("digits.csv.gz")
    images = np.rint(pixels * 255 / 16).astype(np.uint8).reshape(-1, 8, 8, 1)
    labels = digit.astype(np.uint8)
    seen = images[:1536] / 255
    mean, std = (float(seen.mean()),), (float(seen.std()),)
    return Images("digits", images[:1536], labels[:1536], images[1536:], labels[1536:], mean, std)


def _table(file: str, header: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Read features float64 [N, d] and classes int64 [N] from a scikit-learn file, without importing scikit-learn."""
    [package] = find_spec("sklearn").submodule_search_locations  # type: ignore
    rows = np.loadtxt(Path(package) / "datasets/data" / file, delimiter=",", skiprows=header)
    return rows[:, :-1], rows[:, -1].astype(np.int64)
