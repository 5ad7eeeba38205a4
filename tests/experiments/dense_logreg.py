"""Nonconvex logistic regression (7.1) on the breast cancer data by NumPy, a worker at a time."""

from __future__ import annotations

import numpy as np

from data.embedded import breast_cancer
from data.partition import contiguous

LAMBDA = 0.1


def parts(workers: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Dense features and labels of each worker."""
    dataset = breast_cancer()
    dense = dataset.features.toarray()
    return [(dense[rows], dataset.labels[rows].astype(float)) for rows in contiguous(dataset.labels, workers).rows]


def gradient(a: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """∇f_i(x)."""
    return -(a.T @ (y / (1 + np.exp(y * (a @ x))))) / len(y) + LAMBDA * 2 * x / (1 + x**2) ** 2
