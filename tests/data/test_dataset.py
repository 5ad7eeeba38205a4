"""Data sets of rows and of images, their content hashes, and the sets that need no network."""

import hashlib

import numpy as np
import pytest

from data import embedded
from data.dataset import Dataset, Images
from data.mnist1d import mnist1d


@pytest.mark.parametrize("labels", [[0.3, -1.2], [0, 1], [-1, 1], ["a", "b"]])
def test_labels_that_are_no_truth_values_are_refused(labels: list) -> None:
    with pytest.raises(ValueError, match=r"takes True or False .* labels == 1; for real targets write a task"):
        Dataset.from_dense("two", np.ones((2, 3)), np.array(labels))


def test_content_hash_of_images_is_the_documented_bytes_in_any_memory_layout() -> None:
    train, test = np.arange(18, dtype=np.uint8).reshape(3, 1, 2, 3), np.full((1, 1, 2, 3), 200, np.uint8)
    labels = np.array([0, 1, 1], np.uint8), np.array([4], np.uint8)
    content = bytes(range(18)) + bytes([0, 1, 1]) + bytes([200] * 6) + bytes([4])
    turned = np.ascontiguousarray(train.transpose(3, 0, 1, 2)).transpose(1, 2, 3, 0)
    for layout in (train, turned):
        images = Images("few", layout, labels[0], test, labels[1], (0.1, 0.2, 0.3), (1.0, 1.0, 1.0))
        assert images.sha256() == hashlib.sha256(content).hexdigest()
        assert images.classes == 5, "the largest label is a test label"


def test_breast_cancer() -> None:
    dataset = embedded.breast_cancer()
    dense = dataset.features.toarray()
    assert dense.shape == (569, 30)
    assert (int((dataset.labels == 1).sum()), int((dataset.labels == -1).sum())) == (357, 212)
    assert np.allclose(dense.mean(axis=0), 0, atol=1e-12)
    assert np.allclose(dense.var(axis=0), 1, atol=1e-12)
    # Malignant tumours are larger: feature 0 is the mean radius.
    assert dense[dataset.labels == -1, 0].mean() > 0.9 > 0 > dense[dataset.labels == 1, 0].mean()


def test_digits() -> None:
    dataset, images = embedded.digits(), embedded.digit_images()
    pixels = dataset.features.toarray()
    assert pixels.shape == (1797, 64)
    assert (int((dataset.labels == 1).sum()), int((dataset.labels == -1).sum())) == (906, 891)
    # The file begins with the digits 0 to 9 in order.
    assert dataset.labels[:10].tolist() == [-1, 1] * 5
    assert pixels[0, :6].tolist() == [0, 0, 5 / 16, 13 / 16, 9 / 16, 1 / 16]
    assert (images.name, images.classes) == ("digits", 10)
    assert (images.train_images.shape, images.test_images.shape) == ((1536, 8, 8, 1), (261, 8, 8, 1))
    assert {array.dtype for array in images.arrays().values()} == {np.dtype(np.uint8)}
    both = np.concatenate([images.train_images, images.test_images]).reshape(1797, 64)
    # Half a step of 1 / 255 is what rounding may cost.
    assert np.abs(both / 255 - pixels).max() <= 0.5 / 255
    assert both[0, :6].tolist() == [0, 0, 80, 207, 143, 16]
    labels = np.concatenate([images.train_labels, images.test_labels])
    assert labels[:12].tolist() == [*range(10), 0, 1]
    assert np.array_equal(labels % 2 == 1, dataset.labels == 1)
    normal = (images.train_images / 255 - images.mean) / images.std
    assert (normal.mean(), normal.std()) == pytest.approx((0, 1), abs=1e-12)


FIRST = (
    "-0.33 -0.47 -0.78 -1.01 -0.88 0.1 1.64 1.65 0.68 -0.34 -1.52 -1.1 -0.02 1.01 0.62 -0.02 0.25 0.87 0.94 1.04 "
    "1.59 1.24 0.41 -0.22 0.1 0.53 0.52 0.19 0.07 0.32 0.27 -0.58 -1.09 -0.86 -0.11 0.02 -0.33 -0.72 -0.96 -0.89"
)
"""The first signal that mnist1d 0.0.2, the authors' package, makes by default, where all have variance 1."""


def test_mnist1d_is_that_of_its_authors() -> None:
    images = mnist1d()
    assert (images.train_images.shape, images.test_images.shape) == ((4000, 40, 1, 1), (1000, 40, 1, 1))
    assert images.train_labels[:12].tolist() == [2, 6, 4, 5, 6, 6, 6, 0, 3, 1, 6, 9]
    assert images.test_labels[-3:].tolist() == [9, 6, 4]
    both = np.concatenate([images.train_images, images.test_images]).reshape(5000, 40) / 255
    signals = (both - both.mean()) / both.std()
    assert np.abs(signals[0] - np.array(list(map(float, FIRST.split())))).max() <= 0.5 / 255 / both.std() + 0.01
