"""Keyed random numbers."""

from __future__ import annotations

import itertools

import numpy as np

from data.keyed import generator


def test_same_key_same_numbers() -> None:
    first, again = (generator(3, "rows", 2).standard_normal(5) for _ in range(2))
    assert np.array_equal(first, again)


def test_every_part_of_the_key_counts() -> None:
    keys = itertools.product([0, 1, 2**40], ["rows", "labels"], [0, 1, 7])
    first = {key: generator(*key).standard_normal() for key in keys}
    assert len(set(first.values())) == len(first) == 18
