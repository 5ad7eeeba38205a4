"""The sets that need no network."""

from __future__ import annotations

import numpy as np

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
    dataset = embedded.digits()
    assert dataset.features.shape == (1797, 64)
    assert (int((dataset.labels == 1).sum()), int((dataset.labels == -1).sum())) == (906, 891)
    # The file begins with the digits 0 to 9 in order.
    assert dataset.labels[:10].tolist() == [-1, 1] * 5
    assert dataset.features.max() == 1.0
    assert dataset.features.min() == 0.0
    assert dataset.features[[0]].toarray()[0, :6].tolist() == [0, 0, 5 / 16, 13 / 16, 9 / 16, 1 / 16]
