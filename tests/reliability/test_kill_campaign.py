"""Runs that are killed at every change they make, within writes and at any moment: the same command goes on, and
comes to the rows and the final state of a run that was left alone."""

import random
import time
from functools import partial
from pathlib import Path

import pytest
from cluster_support import RUNS
from kill_support import Victim, before_change, within_write

EVERYWHERE = [(name, ranks, rank) for name in RUNS for ranks, rank in ((None, 0), (2, 0), (2, 1), (4, 3))]
soak = pytest.mark.soak


def cases(short: int, long: int) -> list:
    """One run in one process for every test run, and all in the campaign; how much is done in each."""
    return [("logreg", None, 0, short), *(pytest.param(*case, long, marks=soak) for case in EVERYWHERE)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ranks", "rank", "every"), cases(40, 1))
def test_killed_before_a_change(
    name: str, ranks: int | None, rank: int, every: int, seed: int, tmp_path: Path
) -> None:
    victim, dice, number = Victim(name, ranks, tmp_path), random.Random(seed), 1
    while victim.killed(partial(before_change, number, rank, victim.act())):
        if dice.random() < 0.5:
            victim.killed(partial(before_change, dice.randint(1, 40), rank, victim.act()))
        victim.goes_on()
        number += every
    print(f"{victim.kills} kills")
    assert victim.kills > 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ranks", "rank", "times"), cases(2, 20))
def test_killed_within_a_write(
    name: str, ranks: int | None, rank: int, times: int, seed: int, tmp_path: Path
) -> None:
    victim, dice = Victim(name, ranks, tmp_path), random.Random(seed)
    while victim.kills < times:
        size = dice.choice([dice.randrange(500), dice.randrange(victim.largest)])
        if victim.killed(partial(within_write, size, rank, victim.act())):
            victim.goes_on()
    print(f"{victim.kills} kills")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ranks", "rank", "times"), cases(2, 20))
def test_killed_at_any_moment(name: str, ranks: int | None, rank: int, times: int, seed: int, tmp_path: Path) -> None:
    victim, dice = Victim(name, ranks, tmp_path), random.Random(seed)
    begin = time.monotonic()
    victim.goes_on()
    whole = time.monotonic() - begin
    while victim.kills < times:
        while victim.killed_after(dice.uniform(0, whole), rank, everyone=dice.random() < 0.5):
            pass
        victim.goes_on()
    print(f"{victim.kills} kills")
