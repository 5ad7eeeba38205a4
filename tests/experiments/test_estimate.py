"""The estimate of how long runs will take."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from run_support import configuration

from common.errors import RunError
from experiments.cluster.ranks import Ranks
from experiments.planning import estimate as module
from experiments.planning.estimate import among, trial
from experiments.training.trainer import Trainer

RUN = ("task=logreg/breast_cancer", "rounds=100", "eval_every=10")


class Clock:
    """Seconds that rounds and evaluations are made to take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))
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
    return trial(run, Ranks(), print).seconds(run)


def test_it_is_measured(results: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With rounds of 10 ms and evaluations of 30 ms, a run is 100 of the first and 11 of the second."""
    clock = Clock(monkeypatch)
    clock.takes("step", lambda trainer: 0.0005 * len(trainer.cluster.ids))
    clock.takes("evaluate", lambda trainer: 0.03)
    assert estimate(*RUN, results) == pytest.approx(1.33)
    assert capsys.readouterr().out == "timing a round of logreg/breast_cancer with 20 workers\n"


@pytest.mark.parametrize(
    ("overrides", "rows", "round", "evaluation"),
    [
        (RUN, 28, 28 * 20, 28 * 20),
        (("task=digits", "rounds=100", "eval_every=10", "task.evaluation_rows=80"), 16, 32 * 8, 80),
    ],
    ids=["all rows", "batches"],
)
def test_a_long_round_is_told_from_a_few_rows_of_one_worker(
    overrides: tuple[str, ...], rows: int, round: int, evaluation: int, results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a row takes a second, forward and backward."""
    clock = Clock(monkeypatch)
    clock.takes("step", lambda trainer: len(trainer.cluster.ids) * (trainer.task.batch_size or trainer.task.rows))
    assert estimate(*overrides, results) == 100 * round + 11 * evaluation
    assert clock.now == rows


def test_on_a_gpu_the_first_round_is_not_timed(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In it libraries start and a graph is captured; nor is a round told from a few rows, which take as long."""
    clock = Clock(monkeypatch)
    monkeypatch.setattr(module, "device_of", lambda run: "cuda:0")
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
        found = trial(tried, Ranks(), print)
        assert (found.seconds(one), found.seconds(two)) == (pytest.approx(0.1), pytest.approx(0.2))
        assert found.seconds(two, done=75) == pytest.approx(0.05)


def test_runs_that_go_on_at_once_share_the_cores() -> None:
    run, said = configuration(*RUN), configuration(*RUN, "threads=2")
    assert [among(run, 1).threads, among(run, 3).threads, among(said, 3).threads] == [None, 1, 2]


@pytest.mark.parametrize("overrides", [("algorithm=sgd", "lr=1e308"), ("rounds=1",)], ids=["diverging", "short"])
def test_whatever_a_run_does_it_is_timed(overrides: tuple[str, ...], results: str) -> None:
    threads = torch.get_num_threads()
    assert estimate(*RUN, results, *overrides) > 0
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(("owner", "name"), [(module, "build_trainer"), (Trainer, "step")], ids=["built", "timed"])
def test_out_of_memory_is_said(owner: object, name: str, results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*about: object) -> None:
        raise MemoryError

    monkeypatch.setattr(owner, name, full)
    with pytest.raises(RunError, match="out of memory"):
        estimate(*RUN, results)
