"""The made-up problem and its knob."""

import math

import numpy as np
import pytest

from common.errors import DataError, UsageError
from data.dataset import Dataset
from data.keyed import generator
from data.synthetic import synthetic


def dissimilarity(dataset: Dataset, workers: int) -> float:
    """Mean squared distance of the workers' logistic gradients at 0 to their mean, over the mean's square."""
    rows = dataset.features.toarray() * dataset.labels[:, None] / -2
    gradients = rows.reshape(workers, -1, rows.shape[1]).mean(axis=1)
    mean = gradients.mean(axis=0)
    return float(((gradients - mean) ** 2).sum(axis=1).mean() / (mean**2).sum())


def test_the_documented_formula() -> None:
    workers, size, features, heterogeneity, noise = 3, 4, 5, 0.7, 0.3
    dataset = synthetic(workers * size + 2, features, workers, heterogeneity, noise, seed=9)
    shared = generator(9, "shared weights").standard_normal(features)
    row = 0
    for worker in range(workers):
        own, shift = generator(9, "worker weights and mean", worker).standard_normal((2, features))
        weights = shared + heterogeneity * own
        points = generator(9, "rows", worker)
        errors = generator(9, "label noise", worker)
        for _ in range(size + 2 if worker == workers - 1 else size):
            point = heterogeneity * shift / math.sqrt(features) + points.standard_normal(features)
            score = weights @ point / math.sqrt(weights @ weights) + noise * errors.standard_normal()
            assert np.allclose(dataset.features[[row]].toarray()[0], point)
            assert dataset.labels[row] == (1 if score > 0 else -1)
            row += 1
    assert row == dataset.features.shape[0] == 14


def test_seeds() -> None:
    first = synthetic(60, 8, 4, 1.0, seed=1)
    assert synthetic(60, 8, 4, 1.0, seed=1).sha256() == first.sha256()
    assert synthetic(60, 8, 4, 1.0, seed=2).sha256() != first.sha256()


def test_a_workers_rows_do_not_depend_on_the_others() -> None:
    few, many = synthetic(40, 8, 4, 1.0), synthetic(300, 8, 6, 1.0)
    for worker in range(4):
        ours, theirs = slice(10 * worker, 10 * worker + 10), slice(50 * worker, 50 * worker + 10)
        assert np.array_equal(few.features.toarray()[ours], many.features.toarray()[theirs])
        assert np.array_equal(few.labels[ours], many.labels[theirs])


def test_heterogeneity_drives_the_gradients_apart() -> None:
    spread = [dissimilarity(synthetic(20000, 20, 10, knob), 10) for knob in (0.0, 0.5, 1.0, 3.0)]
    assert spread == sorted(spread)
    assert spread[0] < 0.1
    assert spread[3] > 100 * spread[0]


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_noise_flips_the_documented_share(noise: float) -> None:
    clean, noisy = synthetic(40000, 5, 4, noise=0.0), synthetic(40000, 5, 4, noise=noise)
    flipped = float((clean.labels != noisy.labels).mean())
    assert flipped == pytest.approx(math.atan(noise) / math.pi, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 3}, "cluster.workers=4: the data set has 3 rows; give at most 3 workers"),
        ({"features": 0}, "features is 0: give at least 1"),
        ({"heterogeneity": -0.1}, "heterogeneity is -0.1"),
        ({"heterogeneity": math.nan}, "heterogeneity is nan"),
        ({"noise": math.inf}, "noise is inf"),
        ({"seed": -1}, "expected non-negative integer"),
    ],
)
def test_bad_arguments(changes: dict[str, float], message: str) -> None:
    with pytest.raises((DataError, UsageError, ValueError), match=message):
        synthetic(**({"rows": 40, "features": 5, "workers": 4} | changes))
