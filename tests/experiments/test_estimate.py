"""The estimate of how long runs will take."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from run_support import configuration, go

from common.errors import RunError
from experiments.cluster.ranks import Ranks
from experiments.planning import estimate as module
from experiments.planning.estimate import estimate
from experiments.training.trainer import Trainer

RUN = ("task=logreg/breast_cancer", "rounds=100", "eval_every=10")


def test_it_is_measured(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rounds of 10 ms and evaluations of 30 ms, a run is 100 of the first and 11 of the second."""
    clock = [0.0]

    def taking(seconds: float, method: Callable) -> Callable:
        def slow(trainer: Trainer) -> object:
            clock[0] += seconds
            return method(trainer)

        return slow

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(Trainer, "step", taking(0.01, Trainer.step))
    monkeypatch.setattr(Trainer, "evaluate", taking(0.03, Trainer.evaluate))
    missing, seconds = estimate([configuration(*RUN, results), configuration(*RUN, results, "seed=1")], Ranks())
    assert missing == 2
    assert seconds == pytest.approx(2 * 1.33)


def test_finished_runs_take_no_time_and_are_not_tried(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go(*RUN, results)
    monkeypatch.setattr(module, "build_trainer", None)
    assert estimate([configuration(*RUN, results)], Ranks()) == (0, 0)


def test_one_trial_serves_all_methods_of_a_task(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    build = module.build_trainer
    monkeypatch.setattr(module, "build_trainer", lambda *about: (tried.append(about), build(*about))[1])
    methods = [configuration(*RUN, results, f"algorithm={name}") for name in ("sgd", "onebit_adam", "ef21")]
    grid = configuration(*RUN, results, "lr=[0.1,0.2]")
    assert estimate([*methods, grid], Ranks())[0] == 4
    assert len(tried) == 2


def test_a_step_size_that_diverges_is_for_its_run_to_report(results: str) -> None:
    steep = configuration(*RUN, results, "algorithm=sgd", "lr=1e308")
    missing, seconds = estimate([steep], Ranks())
    assert missing == 1
    assert seconds > 0


@pytest.mark.parametrize("where", ["build_trainer", "_measured"])
def test_out_of_memory_is_said(where: str, results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*about: object) -> None:
        raise MemoryError

    monkeypatch.setattr(module, where, full)
    with pytest.raises(RunError, match="out of memory"):
        estimate([configuration(*RUN, results)], Ranks())


def test_short_runs_can_be_tried(results: str) -> None:
    assert estimate([configuration(*RUN[:1], "rounds=1", results)], Ranks())[0] == 1
