"""What is said before a sweep is run, and which step sizes are the best after it."""

import gc
import io
import math
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from run_support import SMALL, configuration, contents, go, rows, run_exit_code

from algorithms.utils.layout import vector_layout
from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import budget, plan
from experiments.orchestration.budget import choose_budget
from experiments.orchestration.plan import Trial, run_trial
from experiments.orchestration.study import cells
from experiments.training.trainer import Trainer
from plots.figure.spec import Figure, Panel
from plots.runs.best import choose_step_sizes
from plots.runs.find import find

TRIAL = Trial(d=30, layout=vector_layout([30]), dtype=torch.float64, round=1.0, evaluation=60.0)
"""Rounds of a second and evaluations of a minute, of a task of 30 coordinates."""


def said(runs: list[RunConfig], **launching: int) -> list[str]:
    """The lines that are printed away from a terminal."""
    file = io.StringIO()
    plan.show(runs, LaunchConfig(**launching), Console(file=file, width=200))
    return file.getvalue().splitlines()


def table(lines: list[str]) -> list[dict[str, str]]:
    cells = [line.split("\t") for line in lines if "\t" in line]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """What is tried, in no time."""
    asked: list[RunConfig] = []
    monkeypatch.setattr(plan, "run_trial", lambda run, *about: (asked.append(run), TRIAL)[1])
    return asked


def test_bits_are_those_that_a_run_will_record(results: str, tried: list[RunConfig]) -> None:
    """With d = 30 a message has 32 + d bits by the sign, and 32d where it is dense."""
    methods = ("cd_adam", "onebit_adam", "amsgrad")
    lines = said([configuration(*SMALL, results, f"algorithm={name}") for name in methods])
    for name, planned in zip(methods, table(lines), strict=True):
        last = rows(go(*SMALL, results, f"algorithm={name}"))[-1]
        assert (planned["bits up"], planned["bits down"]) == (str(last["bits_up"]), str(last["bits_down"]))
    up = 20 * 62 + (2 * 960 + 18 * 62) + 20 * 960  # the second has a warm-up of 2 rounds
    assert f"bits of one worker: {up} up, {up} down" in lines
    absent = (*SMALL, results, "cluster.participation=0.3")
    assert table(said([configuration(*absent)]))[0]["bits up"] == str(rows(go(*absent))[-1]["bits_up"])
    assert "all: task logreg/breast_cancer, n 20, seed 0, lr 0.001, rounds 20" in "\n".join(lines)


def test_what_is_finished_or_interrupted(interrupted: Path, results: str, tried: list[RunConfig]) -> None:
    """20 rounds and 5 evaluations take 320 s, of which 8 rounds of 62 bits are left."""
    path = go(*SMALL, results, "seed=1")
    before = contents(path)
    lines = said([configuration(*SMALL, results, f"seed={seed}") for seed in (0, 1)])
    assert [(row["state"], row["time"]) for row in table(lines)] == [("at round 12", "2 min"), ("finished", "–")]
    assert any(line.startswith("time: about 2 min one after the other") for line in lines)
    assert "bits of one worker: 496 up, 496 down" in lines
    assert len(tried) == 1
    assert contents(path) == before


def test_one_trial_serves_a_task(results: str, tried: list[RunConfig]) -> None:
    """4 × 320 s, and on two at once no less than half of it."""
    configs = [configuration(*SMALL, results, "task.batch_size=3", f"seed={seed}", f"algorithm={name}")
               for seed in (0, 1) for name in ("cd_adam", "ef21")]  # fmt: skip
    for jobs, least in ((2, "11 min"), (50, "5 min")):
        wanted = f"time: about 21 min one after the other, {least} at best with jobs={jobs}"
        assert any(line.startswith(wanted) for line in said(configs, jobs=jobs))
    assert len(tried) == 2  # one a plan


RUN = ("task=logreg/breast_cancer", "rounds=100", "eval_every=10")


class Clock:
    """Seconds that rounds and evaluations are made to take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(plan, "time", SimpleNamespace(perf_counter=lambda: self.now))
        self._patch = monkeypatch

    def takes(self, name: str, seconds: Callable[[Trainer], float]) -> None:
        method = getattr(Trainer, name)

        def slow(trainer: Trainer) -> object:
            self.now += seconds(trainer)
            return method(trainer)

        self._patch.setattr(Trainer, name, slow)


def estimate(*overrides: str) -> float:
    """Seconds of the run that a command line describes."""
    run = configuration(*overrides)
    return run_trial(run, Ranks(), 1, print).seconds(run)


def test_it_is_measured(results: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With rounds of 10 ms and evaluations of 30 ms, a run is 100 of the first and 11 of the second."""
    clock, threads = Clock(monkeypatch), torch.get_num_threads()
    clock.takes("step", lambda trainer: 0.0005 * len(trainer.cluster.ids))
    clock.takes("evaluate", lambda trainer: 0.03)
    assert estimate(*RUN, results) == pytest.approx(1.33)
    assert capsys.readouterr().out == "timing a round of logreg/breast_cancer with 20 workers\n"
    assert estimate(*RUN, results, "threads=2", "lr=1e300", "rounds=1") == pytest.approx(0.01 + 2 * 0.03)
    assert torch.get_num_threads() == threads


def test_memory_of_a_trial_is_released_for_the_runs(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainers, released = weakref.WeakSet(), []
    start = Trainer.__init__
    monkeypatch.setattr(Trainer, "__init__", lambda self, *a, **b: (trainers.add(self), start(self, *a, **b))[1])
    monkeypatch.setattr(plan, "release_gpu_memory", lambda: (gc.collect(), released.append(len(trainers))))
    estimate(*RUN, results)
    assert released == [0]


def test_a_long_round_is_told_from_one_worker(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row takes a second, forward and backward: 20 workers with 28 rows each, all of them evaluated."""
    clock = Clock(monkeypatch)
    clock.takes("step", lambda trainer: len(trainer.cluster.ids) * trainer.task.rows)
    assert estimate(*RUN, results) == (100 + 11) * 28 * 20
    assert clock.now == 28


def test_on_a_gpu_the_first_round_is_not_timed(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In it libraries start and a graph is captured; nor is a round told from one worker."""
    clock = Clock(monkeypatch)
    monkeypatch.setattr(plan, "device_of", lambda run: "cuda:0")
    clock.takes("step", lambda trainer: 0.25 if trainer.t else 8.0)
    clock.takes("evaluate", lambda trainer: 0.5)
    assert estimate("task=digits", "rounds=100", "eval_every=10", results) == 100 * 0.25 + 11 * 0.5


def test_a_method_of_two_gradients_takes_twice_as_long(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of both was tried."""
    clock = Clock(monkeypatch)
    clock.takes("step", lambda trainer: 1e-3 * (1 + trainer.cluster.algorithm.looks_back))
    clock.takes("evaluate", lambda trainer: 0.0)
    one, two = (configuration(*RUN, results, f"algorithm={name}") for name in ("sgd", "dasha_mvr"))
    for tried in (one, two):
        found = run_trial(tried, Ranks(), 1, print)
        assert (found.seconds(one), found.seconds(two)) == (pytest.approx(0.1), pytest.approx(0.2))
        assert found.seconds(two, done=75) == pytest.approx(0.05)


PLAIN = ("algorithm=cd_adam", "algorithm=amsgrad")
ROUNDS = {"full": 1000, "medium": 100, "quick": 10}


def figure(name: str) -> Figure:
    options = {"overrides": ("task=logreg/digits", f"rounds={ROUNDS[name]}"), "grid": (PLAIN,)}
    return Figure(name="any", title="Any", rows=(Panel(x="bits", y="grad_norm"),), budget=name, **options)


@pytest.mark.parametrize(
    ("a_round", "jobs", "expected"), [(3.5, 1, "full"), (3.7, 1, "medium"), (3.7, 2, "full"), (36.1, 1, "quick")]
)
def test_the_largest_that_takes_two_hours_at_most(a_round, jobs, expected, monkeypatch):
    words: list[str] = []
    timed: list[RunConfig] = []
    measured = SimpleNamespace(seconds=lambda run: a_round * run.rounds)
    monkeypatch.setattr(plan, "run_trial", lambda run, *about: (timed.append(run), measured)[1])
    candidates = [figure(name) for name in ROUNDS]
    assert choose_budget(candidates, [], [], LaunchConfig(jobs=jobs), words.append).budget == expected
    assert len(timed) == min(list(ROUNDS).index(expected) + 1, 2)  # one run a budget, none of the last
    refused = [line for line in words if line.endswith("more than the two hours of budget=auto")]
    assert len(refused) == list(ROUNDS).index(expected)
    assert words[-1].startswith(f"budget {expected}: ")


def test_a_run_on_gpus_takes_one_for_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    measured = SimpleNamespace(seconds=lambda run: 0.0)
    monkeypatch.setattr(plan, "run_trial", lambda run, ranks, jobs, say: (asked.append(jobs), measured)[1])
    monkeypatch.setattr(budget, "device_of", lambda run: "cuda:0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    choose_budget([figure(name) for name in ROUNDS], [], [], LaunchConfig(ranks=2), print)
    assert asked == [4]


def of(path: Path, lr: float, metric: str) -> list[float]:
    """A metric of a run's every row with one step size."""
    return [row[metric] for row in rows(path) if math.isclose(row["lr"], lr)]


pytestmark = pytest.mark.usefixtures("no_process")


def test_a_finished_run_is_told_by_its_best_step_size(results: str) -> None:
    line = [*SMALL, "algorithm=sgd", "lr=[0.0003,0.1]", results]
    path = go(*line)
    [cell] = cells([line], [load_run(line)], "mine")
    lr = min((0.0003, 0.1), key=lambda lr: of(path, lr, "train_loss")[-1])
    said = cell.outcome("final_train_loss")
    assert said.startswith(f"lr {lr:g}: train_loss {of(path, lr, 'train_loss')[-1]:.4g}, ")
    assert said.endswith(" bits, best of 2 step sizes")


def test_where_nothing_came_to_its_end(results: str) -> None:
    assert run_exit_code([*SMALL, "algorithm=sgd", "lr=[0.1,1e308]", results]) == 1
    [choice] = choose_step_sizes(find(Path(results.partition("=")[2])), "final_grad_norm").itertuples()
    assert all(map(math.isnan, (choice.lr, choice.value, choice.second)))
    assert choice.note.startswith("no step size can win")
