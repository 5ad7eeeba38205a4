"""The project's own data sets keep what is asked of all, and every check notices one that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from conformance_support import each, names, violation
from scipy import sparse

from data.dataset import Dataset
from data.embedded import breast_cancer, digit_images, digits
from data.images import Images
from data.synthetic import synthetic
from experiments.conformance import check_dataset
from experiments.conformance import datasets as checks

LOADERS = {
    "breast cancer": breast_cancer,
    "digits": digits,
    "digit images": digit_images,
    "synthetic": lambda: synthetic(rows=50, features=4, workers=3),
}


@pytest.mark.parametrize("name", LOADERS)
def test_the_embedded_data_sets(name: str) -> None:
    check_dataset(LOADERS[name])


DENSE = np.random.default_rng(0).standard_normal((12, 3))
POSITIVE = np.arange(12) % 2 == 0
CALLS = count()


def few(**changes: object) -> Callable[[], Dataset]:
    """Loads a small set with something changed."""
    return lambda: replace(Dataset.from_dense("few", DENSE, POSITIVE), **changes)


def features(change: Callable[[sparse.csr_array], object]) -> Callable[[], Dataset]:
    """Loads a small set with other features."""
    return few(features=change(Dataset.from_dense("few", DENSE, POSITIVE).features))


def pictures(**changes: object) -> Callable[[], Images]:
    """Loads small images with something changed."""
    random = np.random.default_rng(0)
    train, test = (random.integers(0, 256, (n, 4, 5, 2)).astype(np.uint8) for n in (30, 6))
    labels = np.arange(30, dtype=np.uint8) % 3
    return lambda: replace(Images("few", train, labels, test, labels[:6], (0.5, 0.5), (0.29, 0.29)), **changes)


def backwards(matrix: sparse.csr_array) -> sparse.csr_array:
    """The same with each row's columns in falling order."""
    columns = matrix.indices.reshape(12, 3)[:, ::-1].ravel().copy()
    return sparse.csr_array((matrix.data.reshape(12, 3)[:, ::-1].ravel().copy(), columns, matrix.indptr))


def wide(matrix: sparse.csr_array) -> sparse.csr_array:
    """The same with 64-bit column indices."""
    wider = matrix.copy()
    wider.indices = wider.indices.astype(np.int64)
    return wider


BROKEN = [
    ("is_a_dataset", lambda: (DENSE, POSITIVE), "a Dataset or Images, saw tuple"),
    ("is_a_dataset", few(name="../few"), "a name of letters, digits, _ . + and -, saw '../few'"),
    ("has_rows", features(lambda matrix: matrix.toarray()), "a scipy.sparse.csr_array, saw ndarray"),
    ("has_rows", features(lambda matrix: matrix.astype(np.float32)), "features of float64, saw float32"),
    ("has_rows", features(wide), "column indices of int32, saw int64"),
    ("has_rows", features(lambda matrix: sparse.csr_array((12, 3))), "with a number in them"),
    ("has_rows", features(backwards), "column indices that ascend within each row"),
    ("has_rows", features(lambda matrix: matrix * np.inf), "finite features, saw 36 that are not, such as ["),
    ("has_rows", pictures(test_images=np.zeros((6, 4, 4, 2), np.uint8)), "test_images of (4, 5, 2) as train_images"),
    ("has_rows", pictures(train_images=np.zeros((30, 4, 5, 2))), "train_images of uint8, saw float64"),
    ("has_rows", pictures(train_images=np.zeros((30, 40), np.uint8)), "train_images [N, h, w, c], none of them 0"),
    ("has_labels", few(labels=POSITIVE.astype(np.int8)), "labels [-1, 1], saw [0, 1]"),
    ("has_labels", few(labels=np.ones(12, np.int8)), "labels [-1, 1], saw [1]"),
    ("has_labels", few(labels=np.where(POSITIVE, 1.0, -1.0)), "labels of int8, saw float64"),
    ("has_labels", few(labels=np.array([1, -1], np.int8)), "labels of 12 rows, saw (2,)"),
    ("has_labels", pictures(train_labels=np.arange(30, dtype=np.uint8) % 3 + 1), "train_labels [0, 1, 2, 3], saw [1"),
    ("has_labels", pictures(test_labels=np.full(6, 9, np.uint8)), "train_labels [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], saw"),
    (
        "is_normalised_by_its_mean",
        pictures(mean=(127.0, 127.0), std=(74.0, 74.0)),
        "mean 0 and std 1 (± 0.5), saw",
    ),
    ("is_normalised_by_its_mean", pictures(mean=(0.5,)), "mean of 2 channels, saw 1"),
    ("is_the_same_every_time", lambda: synthetic(50, 4, 3, seed=next(CALLS)), "… again, saw"),
]


@pytest.mark.parametrize(("name", "load", "message"), each(BROKEN))
def test_a_broken_promise_is_noticed(name: str, load: Callable, message: str) -> None:
    assert message in violation(getattr(checks, name), load)


def test_every_check_has_something_that_it_notices() -> None:
    assert {name for name, _, _ in BROKEN} == names(checks.CHECKS)


def test_what_is_about_to_be_broken_is_whole() -> None:
    check_dataset(few())
    check_dataset(pictures())
