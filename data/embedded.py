"""Small real data sets that come with scikit-learn: no network, no files."""

from __future__ import annotations

from sklearn import datasets

from data.dataset import Dataset


def breast_cancer() -> Dataset:
    """569 tumours, 30 features, each of mean 0 and variance 1 over the rows; benign is +1, malignant -1."""
    features, raw = datasets.load_breast_cancer(return_X_y=True)
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    return Dataset.from_dense("breast_cancer", standard, raw == 1)


def digits() -> Dataset:
    """1797 handwritten digits, 8 × 8 pixels from 0 to 1; odd digits are +1, even ones -1."""
    pixels, digit = datasets.load_digits(return_X_y=True)
    return Dataset.from_dense("digits", pixels / 16, digit % 2 == 1)
