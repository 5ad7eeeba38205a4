"""Which budget `auto` takes, by times that a stand-in measures."""

from collections.abc import Sequence

import pytest

from common.errors import UsageError
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.planning import budget
from plots.figure.spec import Figure, Panel

PLAIN = ("algorithm=cd_adam", "algorithm=amsgrad")


def figure(name: str, **others: object) -> Figure:
    options = {"overrides": ("task=logreg/digits", f"rounds={ROUNDS[name]}"), "grid": (PLAIN,)} | others
    return Figure(name="any", title="Any", rows=(Panel(x="bits", y="grad_norm"),), budget=name, **options)  # type: ignore[arg-type]


ROUNDS = {"full": 1000, "medium": 100, "quick": 10}


def taken(
    candidates: Sequence[Figure], a_round: float, monkeypatch: pytest.MonkeyPatch, jobs: int = 1, done: int = 0
) -> tuple[str | None, list[str]]:
    """The budget that is picked where a round takes so many seconds and `done` runs are there, and what was said."""

    def estimate(runs: list[RunConfig], ranks: object, say: object) -> tuple[int, float]:
        return len(runs) - done, a_round * sum(run.rounds for run in runs[done:])

    monkeypatch.setattr(budget, "estimate", estimate)
    said: list[str] = []
    return budget.affordable(candidates, [], [], LaunchConfig(jobs=jobs), said.append).budget, said


@pytest.mark.parametrize(
    ("a_round", "jobs", "done", "expected"),
    [(1, 1, 0, "full"), (3.5, 1, 0, "full"), (3.7, 1, 0, "medium"), (3.7, 2, 0, "full"), (3.7, 1, 1, "full"),
     (3.7, 8, 1, "full"), (36.1, 1, 0, "quick"), (1e6, 1, 0, "quick")],
)  # fmt: skip
def test_the_largest_that_takes_two_hours_at_most(
    a_round: float, jobs: int, done: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked, said = taken([figure(name) for name in ROUNDS], a_round, monkeypatch, jobs, done)
    assert picked == expected
    refused = [line for line in said if line.endswith("too long for budget=auto")]
    assert len(refused) == list(ROUNDS).index(expected)


def test_step_sizes_that_are_not_known_yet_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of two methods 2 trials each, 3 seeds with the published step size, and as many with the best: 16 runs.
    tuned = figure("medium", held_out=9, seeds=(0, 1, 2), published={"cd_adam": 0.1, "amsgrad": 0.1},
                   grid=(tuple(f"{line} lr=[0.1,0.2]" for line in PLAIN),))  # fmt: skip
    for seconds, expected in ((7200 / 1600 - 0.1, "medium"), (7200 / 1600 + 0.1, "quick")):
        assert taken([tuned, figure("quick")], seconds, monkeypatch)[0] == expected


def test_ranks_that_would_time_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "place_of", lambda: object())
    with pytest.raises(UsageError, match="with several, name one, budget=full say"):
        taken([figure(name) for name in ROUNDS], 1, monkeypatch)
