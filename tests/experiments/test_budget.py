"""Which budget `auto` chooses, by times that a stand-in measures."""

from types import SimpleNamespace

import pytest

from common.errors import UsageError
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.planning import budget
from plots.figure.spec import Figure, Panel

PLAIN = ("algorithm=cd_adam", "algorithm=amsgrad")
ROUNDS = {"full": 1000, "medium": 100, "quick": 10}


def figure(name: str, **others: object) -> Figure:
    options = {"overrides": ("task=logreg/digits", f"rounds={ROUNDS[name]}"), "grid": (PLAIN,)} | others
    return Figure(name="any", title="Any", rows=(Panel(x="bits", y="grad_norm"),), budget=name, **options)  # type: ignore[arg-type]


def chosen(
    candidates: list[Figure], a_round: float, monkeypatch: pytest.MonkeyPatch, jobs: int = 1
) -> tuple[str | None, list[str], list[RunConfig]]:
    """The budget that is chosen where a round takes so many seconds, what was said, and what was timed."""
    timed: list[RunConfig] = []

    def trial(run: RunConfig, *about: object) -> SimpleNamespace:
        timed.append(run)
        return SimpleNamespace(seconds=lambda run: a_round * run.rounds)

    monkeypatch.setattr(budget, "trial", trial)
    said: list[str] = []
    return budget.choose_budget(candidates, [], [], LaunchConfig(jobs=jobs), said.append).budget, said, timed


@pytest.mark.parametrize(
    ("a_round", "jobs", "expected"),
    [(1, 1, "full"), (3.5, 1, "full"), (3.7, 1, "medium"), (3.7, 2, "full"), (7.3, 8, "medium"), (36.1, 1, "quick")],
)
def test_the_largest_that_takes_two_hours_at_most(
    a_round: float, jobs: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked, said, timed = chosen([figure(name) for name in ROUNDS], a_round, monkeypatch, jobs)
    assert picked == expected
    assert len(timed) == min(list(ROUNDS).index(expected) + 1, 2)  # one run a budget, none of the last
    assert [run.threads for run in timed] == [None if jobs == 1 else 1] * len(timed)
    refused = [line for line in said if line.endswith("more than the two hours of budget=auto")]
    assert len(refused) == list(ROUNDS).index(expected)
    assert said[-1].startswith(f"budget {expected}: ")
    assert said[-1].endswith("chosen")


def test_every_task_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = (("task=logreg/digits", "task=logreg/breast_cancer"), PLAIN, ("seed=0", "seed=1"))
    full = figure("full", overrides=("rounds=1000",), grid=grid)
    for seconds, expected in ((0.89, "full"), (0.91, "quick")):  # 8 runs of 1000 rounds
        picked, _, timed = chosen([full, figure("quick")], seconds, monkeypatch)
        assert (picked, [run.task.name for run in timed]) == (expected, ["logreg/digits", "logreg/breast_cancer"])


def test_step_sizes_that_are_not_known_yet_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2 methods 2 trials each of a quarter of the rounds, and on 3 seeds the published and the best step size."""
    grid = (tuple(f"{line} lr=[0.1,0.2]" for line in PLAIN),)
    steps = {"cd_adam": 0.1, "amsgrad": 0.1}
    tuned = figure("medium", held_out=9, seeds=(0, 1, 2), published=steps, trial_share=0.25, grid=grid)
    for seconds, expected in ((7200 / 1300 - 0.1, "medium"), (7200 / 1300 + 0.1, "quick")):
        picked, _, [timed] = chosen([tuned, figure("quick")], seconds, monkeypatch)
        assert (picked, timed.lr) == (expected, (0.1,))


def test_ranks_that_would_time_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "place_of", lambda: object())
    with pytest.raises(UsageError, match="with several, name one, such as budget=full"):
        chosen([figure(name) for name in ROUNDS], 1, monkeypatch)
