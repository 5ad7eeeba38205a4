"""The sets that need no network."""

import numpy as np
import pytest

from data import embedded


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
