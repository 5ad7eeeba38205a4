"""Keyed random numbers, and sharing rows over workers."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from common.errors import UsageError
from data.partition import generator, share

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


def test_contiguous_keeps_file_order() -> None:
    assert WAYS["contiguous"](two_classes(11), 3).tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


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
