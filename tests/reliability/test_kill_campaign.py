"""Runs that are killed at every change they make, within writes and at any moment: the same command goes on, and
comes to the rows and the final state of a run that was left alone."""

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cluster_support import RUNS, Ended, Launch, assert_same, kill, my_rank, outputs, run_all, spawn, variant
from run_support import go, status

from experiments.config.identity import folder

COMMON = (
    *("rounds=9", "eval_every=3", "checkpoint_every=3", "lr=[0.003,0.01]"),
    *("cluster.workers=4", "threads=1", "cluster.timeout=15"),
)
KILLED = (-signal.SIGKILL, -signal.SIGXFSZ)

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


class Victim:
    """A run that is killed and begun again, by one process (`ranks` None) or several, and one left alone."""

    def __init__(self, name: str, ranks: int | None, place: Path) -> None:
        self._ranks, self._place, self._said = ranks, place, place / "said"
        self._overrides = (*COMMON, *RUNS[name])
        self._kept = go(*self._overrides, f"results_dir={place / 'kept'}")
        self.largest = max(file.stat().st_size for file in self._kept.rglob("*"))
        self.kills = self._runs = 0
        self.begin()

    def begin(self) -> None:
        """Go to another folder, in which nothing has been done."""
        self._runs += 1
        self._run = variant(*self._overrides, results=self._place / f"results-{self._runs}")

    def act(self) -> Callable[[], None]:
        return partial(run_all, [self._run])

    def killed(self, act: Callable[[], None]) -> bool:
        """Whether a rank was killed in `act`; else all ended well."""
        return self._count(spawn(self._said, self._ranks, act))

    def killed_after(self, seconds: float, rank: int, everyone: bool) -> bool:
        """Whether a rank, or `everyone`, was killed so many seconds after its start."""
        launch = Launch(self._said, self._ranks, self.act())
        time.sleep(seconds)
        for process in launch.ranks if everyone else [launch.ranks[rank]]:
            process.kill()
        return self._count(launch.wait())

    def goes_on(self) -> None:
        """Give the same command again and fail unless it comes to what it must come to. Then another is begun."""
        path = folder(self._run)
        outputs(spawn(self._said, self._ranks, self.act()))
        assert_same(path, self._kept)
        assert status(path)["status"] == "finished"
        left = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
        assert left == {str(file.relative_to(self._kept)) for file in self._kept.rglob("*") if file.is_file()}
        self.begin()

    def _count(self, ranks: list[Ended]) -> bool:
        killed, said = [rank.code in KILLED for rank in ranks], "\n".join(rank.said for rank in ranks)
        # The others may have come to their end before, or else they say whom they lost.
        assert all(died or rank.code in (0, 1) for died, rank in zip(killed, ranks, strict=True)), said
        assert "Traceback" not in said, said
        self.kills += any(killed)
        return any(killed)


def before_change(number: int, rank: int, act: Callable[[], None]) -> None:
    """`act`, in which a rank is killed before its change of that number, from 1, of the file system."""
    if my_rank() == rank:
        left = number

        def count(event: str, arguments: tuple) -> None:
            nonlocal left
            if event in _CHANGES or (event == "open" and arguments[2] & _WRITES and _is_kept(arguments[0])):
                left -= 1
                if not left:
                    kill()

        sys.addaudithook(count)
    act()


def within_write(size: int, rank: int, act: Callable[[], None]) -> None:
    """`act`, in which a rank is killed as soon as any file would have more than so many bytes, which it then has."""
    if my_rank() == rank:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    act()


def _is_kept(path: object) -> bool:
    """Whether a file that is opened is one of a run, and not, say, a module's."""
    return not isinstance(path, int) and "results" in os.fspath(path)


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
