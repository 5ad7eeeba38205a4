"""The made-up problem and its knobs."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from common.errors import DataError, UsageError
from data import synthetic as module
from data.partition import generator
from data.synthetic import synthetic


@pytest.mark.parametrize(
    ("density", "runs"),
    [(1.0, [(k, 1) for k in range(21)]), (0.22, [(0, 4), (4, 4), (8, 4), (12, 4), (16, 5)])],
    ids=["dense", "sparse"],
)
def test_the_documented_formula(density: float, runs: list[tuple[int, int]]) -> None:
    """Entry by entry; of sparse rows 21 columns in 5 runs of neighbours."""
    workers, size, features, heterogeneity, noise = 3, 4, 21, 0.7, 0.3
    dataset = synthetic(workers * size + 2, features, workers, heterogeneity, noise, density=density, seed=9)
    shared = generator(9, "shared weights").standard_normal(features)
    row = 0
    for worker in range(workers):
        own, shift = generator(9, "worker weights and mean", worker).standard_normal((2, features))
        places, points = generator(9, "columns", worker), generator(9, "rows", worker)
        errors = generator(9, "label noise", worker)
        for _ in range(size + 2 if worker == workers - 1 else size):
            expected, length, score = np.zeros(features), 0.0, 0.0
            for first, width in runs:
                column = first + int(places.random() * width)
                expected[column] = heterogeneity * shift[column] / math.sqrt(features) + points.standard_normal()
                weight = shared[column] + heterogeneity * own[column]
                length, score = math.hypot(length, weight), score + weight * expected[column]
            assert np.allclose(dataset.features[[row]].toarray()[0], expected, rtol=1e-14, atol=0)
            assert dataset.labels[row] == (1 if score / length + noise * errors.standard_normal() > 0 else -1)
            row += 1
    assert row == dataset.features.shape[0]


@pytest.mark.parametrize("density", [0.05, 1.0])
def test_however_much_is_drawn_at_once(density: float, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {"rows": 61, "features": 100, "workers": 3, "heterogeneity": 0.5, "density": density}
    whole = synthetic(**arguments)
    for chunk in (1, 23, 700):
        monkeypatch.setattr(module, "_CHUNK", chunk)
        assert synthetic(**arguments).sha256() == whole.sha256()


def test_memory_follows_the_entries() -> None:
    """Dense, these rows would take 8 GB."""
    tracemalloc.start()
    try:
        dataset = synthetic(10_000, 100_000, 2, density=1e-3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert dataset.features.nnz == 1_000_000
    # An entry's 12 bytes, five numbers of 8 while a chunk is drawn, and six vectors.
    assert peak < 1_000_000 * (12 + 5 * 8) + 6 * 8 * 100_000


def test_a_workers_rows_do_not_depend_on_the_others() -> None:
    few, many = synthetic(40, 8, 4, 1.0), synthetic(300, 8, 6, 1.0)
    for worker in range(4):
        ours, theirs = slice(10 * worker, 10 * worker + 10), slice(50 * worker, 50 * worker + 10)
        assert np.array_equal(few.features.toarray()[ours], many.features.toarray()[theirs])
        assert np.array_equal(few.labels[ours], many.labels[theirs])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 3}, "cluster.workers=4: the data set has 3 rows; give at most 3 workers"),
        ({"rows": 10**9, "features": 10**6}, "with 1000000 features each takes about 12.0 PB of memory, and"),
        ({"seed": -1}, "expected non-negative integer"),
    ],
)
def test_bad_arguments(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, UsageError, ValueError), match=message):
        synthetic(**({"rows": 40, "features": 5, "workers": 4} | changes))
