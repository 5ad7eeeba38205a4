"""Keyed random numbers."""

import itertools

from data.keyed import generator


def test_every_part_of_the_key_counts() -> None:
    keys = [*itertools.product([0, 1, 2**40], ["rows", "labels"], [0, 1, 7])]
    first, again = ([generator(*key).standard_normal() for key in keys] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(first) == 18
