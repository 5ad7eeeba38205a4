"""Keyed random numbers, sharing rows over workers, and the made-up problem with its knobs."""

import itertools
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refusals

from common.errors import DataError, UsageError
from data import synthetic as module
from data.partition import generator, share
from data.synthetic import synthetic

WAYS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "contiguous": lambda labels, workers: share(labels, workers, "contiguous", 5),
    "shuffled": lambda labels, workers: share(labels, workers, "shuffled", 5),
    "dirichlet, strong skew": lambda labels, workers: share(labels, workers, "dirichlet", 5, 1e-3),
    "dirichlet, weak skew": lambda labels, workers: share(labels, workers, "dirichlet", 5, 10.0),
}


def test_every_part_of_the_key_counts() -> None:
    keys = [*itertools.product([0, 1, 2**40], ["rows", "labels"], [0, 1, 7])]
    first, again = ([generator(*key).standard_normal() for key in keys] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(first) == 18


def two_classes(rows: int) -> np.ndarray:
    """Labels int8 [rows], every fourth +1, the others -1."""
    return np.where(np.arange(rows) % 4 == 0, 1, -1).astype(np.int8)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("rows", "workers"), [(103, 10), (19, 10), (7, 7), (1, 1)])
def test_parts_are_equal_and_disjoint(way: str, rows: int, workers: int) -> None:
    parts = WAYS[way](two_classes(rows), workers)
    assert parts.shape == (workers, rows // workers)
    assert parts.dtype == np.int64
    assert len(set(parts.ravel())) == parts.size
    assert set(parts.ravel()) <= set(range(rows))


@pytest.mark.parametrize("how", ["shuffled", "dirichlet"])
def test_the_seed_decides(how: str) -> None:
    one, again, other = (share(two_classes(103), 10, how, seed) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_shuffled_is_a_uniform_sample() -> None:
    parts = share(two_classes(20000), 10, "shuffled", 3)
    assert not np.array_equal(parts.ravel(), np.arange(20000))
    # Row numbers have mean 9999.5 and standard deviation 5774; a mean of 2000 of them, 129.
    assert np.abs(parts.mean(axis=1) - 9999.5).max() < 5 * 129


def test_dirichlet_gives_the_shares_it_drew_while_classes_last() -> None:
    # The first worker meets full classes, so its count of +1 is m p with p ~ Beta(alpha, alpha).
    labels = np.repeat([-1, 1], 500)
    shares = [(labels[share(labels, 10, "dirichlet", seed, 2.0)[0]] == 1).mean() for seed in range(400)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)
    # Beta(2, 2) has variance 1/20; 400 draws estimate it to about a twentieth.
    assert np.var(shares) == pytest.approx(1 / 20, rel=0.25)


def test_dirichlet_with_several_classes() -> None:
    labels = np.arange(1000) % 10
    parts = share(labels, 10, "dirichlet", 0, 0.05)
    counts = np.array([np.bincount(labels[rows], minlength=10) for rows in parts])
    assert counts.sum(axis=0).tolist() == [100] * 10
    assert counts.max(axis=1).mean() > 40


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workers", [20, 0])
def test_impossible_numbers_of_workers(way: str, workers: int) -> None:
    with pytest.raises(UsageError, match=f"cluster.workers={workers}: the data set has 12 rows; give at most 12"):
        WAYS[way](two_classes(12), workers)


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


test_bad_arguments = refusals(
    (lambda: synthetic(3, 5, 4), "cluster.workers=4: the data set has 3 rows; give at most 3 workers"),
    (lambda: synthetic(10**9, 10**6, 4), "with 1000000 features each takes about 12.0 PB of memory, and"),
    (lambda: synthetic(40, 5, 4, seed=-1), "expected non-negative integer"),
    kind=(DataError, UsageError, ValueError),
)
