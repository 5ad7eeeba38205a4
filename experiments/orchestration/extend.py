"""A grid of step sizes of which some are done: what is left of it is a run of its own."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from experiments.config import identity
from experiments.config.schema import RunConfig
from experiments.run_store.code import is_usable
from plots.runs.find import folders
from plots.runs.read import open_run


def parts(run: RunConfig) -> list[RunConfig]:
    """The runs that a run's step sizes are found in: itself, unless finished ones beside it have some of them.

    These are of today's code and equal to it, except that they have some of its step sizes: how a trial moves does
    not depend on the others of its batch, and what is measured of it at most in the last bit. What they lack is the
    last of the runs, if they lack any. A run that was begun is not divided.
    """
    place = identity.folder(run)
    if len(run.lr) == 1 or place.exists():
        return [run]
    smaller = [replace(run, lr=lrs) for lrs in _grids(run) if set(lrs) < set(run.lr)]
    done: list[RunConfig] = []
    for some in sorted(smaller, key=lambda some: (-len(some.lr), some.lr)):
        if not set(some.lr) & _tried(done) and is_finished(some):
            done.append(some)
    left = tuple(lr for lr in run.lr if lr not in _tried(done))
    return [*done, *([replace(run, lr=left)] if left else [])] if done else [run]


def _tried(runs: Iterable[RunConfig]) -> set[float]:
    return {lr for run in runs for lr in run.lr}


def _grids(run: RunConfig) -> list[tuple[float, ...]]:
    """The different lists of step sizes of the runs beside a run."""
    found: dict[tuple[float, ...], None] = {}
    for path in folders(identity.folder(run).parent):
        with suppress(OSError, ValueError, LookupError):  # which say nothing of this run
            found[_grid(path)] = None
    return list(found)


@cache  # a folder's id follows from them
def _grid(path: Path) -> tuple[float, ...]:
    return tuple(map(float, open_run(path).lrs))


def is_finished(run: RunConfig) -> bool:
    """Whether a run is done by code that stands, told without torch; where it cannot be told it is not. Raises as
    `is_usable`."""
    try:
        record = open_run(identity.folder(run))
    except (OSError, ValueError):
        return False
    return record.is_finished and is_usable(record, run.stale)
