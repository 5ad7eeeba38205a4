"""Which evaluations of its curves a page has, where it has no room for all of them."""

from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np

from plots.runs.columns import column
from plots.runs.read import RunRecord
from plots.runs.variants import Variant, grouped

ROOM = 1_800_000
"""Values of curves in a page: 20 bytes each, which with all else makes less than 50 MB."""


def kept(variants: Sequence[Variant]) -> dict[Path, np.ndarray]:
    """By run folder the places, in order, of the evaluations that there is room for; those of most runs are all.

    Runs of a method on a task that were evaluated in the same rounds keep the same ones, so that there is a mean over
    seeds: the first, the last, those with the least and the greatest value of each quantity in all of these runs, and
    others between, half of them evenly and half evenly on a logarithmic axis.
    """
    lengths = np.array([evaluations(variant.run) for variant in variants])
    columns = np.array([1 + len(variant.lrs) * len(measured(variant.run)) for variant in variants])
    longest = max(lengths, default=0)
    most = bisect(range(longest + 1), ROOM, key=lambda most: np.minimum(lengths, most) @ columns) - 1
    places = {}
    for group in grouped(variants, lambda variant: (variant.run.task, variant.name, _rounds(variant.run))).values():
        length = evaluations(group[0].run)
        chosen = (
            np.arange(length) if length <= max(2, most) else _chosen([variant.run for variant in group], length, most)
        )
        places |= {variant.run.folder: chosen for variant in group}
    return places


def evaluations(run: RunRecord) -> int:
    """How often a run was evaluated so far."""
    return -(-run.height // len(run.lrs))


def measured(run: RunRecord) -> list[str]:
    """The columns of a run that say something about the model."""
    return [name for name in run.columns if column(name).is_measured]


def _rounds(run: RunRecord) -> bytes:
    return run.numbers["round"][:: len(run.lrs)].tobytes()


def _chosen(runs: Sequence[RunRecord], length: int, most: int) -> np.ndarray:
    """Up to `most` of `length` places; the first, the last and the extremes are among them even if these are more."""
    return _with_others(frozenset({0, length - 1, *_extremes(runs)}), length, most)


@lru_cache
def _with_others(marked: frozenset[int], length: int, most: int) -> np.ndarray:
    def places(count: int) -> np.ndarray:
        between = np.linspace(0, length - 1, count), np.geomspace(1, length - 1, count)
        return np.unique(np.concatenate([[*marked], *between]).round().astype(int))

    return places(max(0, bisect(range(length), most, key=lambda count: len(places(count))) - 1))


def _extremes(runs: Sequence[RunRecord]) -> set[int]:
    """The places of the least and the greatest value of every column that says something about the model."""
    found: dict[tuple[str, int], tuple[float, int]] = {}
    for run, way in product(runs, (1, -1)):  # the least, the greatest
        for name in measured(run):
            values = np.where(np.isfinite(run.numbers[name]), way * run.numbers[name], np.inf)
            row = int(values.argmin())
            found[name, way] = min(found.get((name, way), (np.inf, 0)), (values[row], row // len(run.lrs)))
    return {place for value, place in found.values() if value < np.inf}
