"""Numbers at the ends of the range, and runs of the smallest size: a defined result each, for every algorithm."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from run_support import configuration, go, rows, status, stopped, where

from common.errors import RunError
from experiments.cluster.ranks import Ranks
from experiments.config.compose import ROOT
from experiments.training.build import build_trainer
from experiments.training.trainer import Trainer

FAST = {"cd_adam", "demo", "marina", "onebit_lamb", "quantized_adam", "zero_one_adam"}
every_algorithm = pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in sorted(file.stem for file in (ROOT / "conf" / "algorithm").glob("[!_]*.yaml"))
    ],
)
ROWS = 40


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., list[str]]:
    """The overrides of a run on forty rows, two of three with one label, whose features all have a value."""

    def of(value: str, features: int = 1) -> list[str]:
        file = tmp_path / f"{features}-{value}.svm"
        row = " ".join(f"{feature}:{value}" for feature in range(1, features + 1))
        file.write_text("".join(f"{j % 3 // 2} {row}\n" for j in range(ROWS)))
        return [
            *("task=logreg/file", f"task.dataset.file={file}", f"data_dir={tmp_path}", "rounds=20"),
            *("lr=0.001", f"results_dir={tmp_path / 'results'}"),
        ]

    return of


@every_algorithm
def test_what_overflows_ends_the_run(algorithm: str, task: Callable[..., list[str]]) -> None:
    """Gradients are finite, every square is infinite, and so an average v of squares for ever."""
    trainer = _trainer(*task("1e200"), f"algorithm={algorithm}")
    if algorithm in ("signum", "distributed_lion", "demo"):  # they step by signs
        _steps(trainer, 10)
        return
    with pytest.raises(RunError, match=r"round \d+, "):
        _steps(trainer, 10)


def test_a_run_that_overflows_has_failed(task: Callable[..., list[str]]) -> None:
    command = task("1e200")
    assert stopped(command) == 1
    assert status(where(*command))["status"] == "failed"
    assert [row["round"] for row in rows(where(*command))] == [0]


def test_an_overflow_at_one_worker_names_it() -> None:
    trainer = _trainer("algorithm=quantized_adam", "cluster.workers=2", "lr=[0.1,0.2]")
    for _ in range(2):
        trainer.step()
    trainer.evaluate()
    trainer.state.workers.moments.v[1, 1, 3] = torch.inf
    with pytest.raises(RunError, match=r"round 2, worker 1, trial 1 \(lr=0\.2\): workers\.moments\.v is not"):
        trainer.evaluate()


@every_algorithm
def test_what_is_nearly_zero_is_taken(algorithm: str, task: Callable[..., list[str]]) -> None:
    """Gradients have denormal numbers, whose squares are zero; evaluation sees that all stays finite."""
    _steps(_trainer(*task("1e-310", features=9), f"algorithm={algorithm}"), 5)


@every_algorithm
@pytest.mark.parametrize(("features", "workers"), [(1, 1), (9, ROWS)])
def test_the_smallest_of_everything(
    algorithm: str, features: int, workers: int, task: Callable[..., list[str]]
) -> None:
    """One coordinate, or one more than fill a byte; one worker, or one row a worker."""
    often = ["algorithm.period=5"] if "period" in configuration(f"algorithm={algorithm}").algorithm.options else []
    trainer = _trainer(*task("0.5", features), f"algorithm={algorithm}", f"cluster.workers={workers}", *often)
    [first] = trainer.evaluate()
    assert _steps(trainer, 20)["train_loss"] < first["train_loss"]


def test_without_compression_the_number_of_workers_changes_nothing(task: Callable[..., list[str]]) -> None:
    """As many rows a worker: the mean of the workers' gradients is the gradient."""
    losses = [
        [row["train_loss"] for row in rows(go(*task("0.5", 9), "algorithm=amsgrad", f"cluster.workers={workers}"))]
        for workers in (1, 2, ROWS)
    ]
    for others in losses[1:]:
        torch.testing.assert_close(others, losses[0], rtol=1e-12, atol=0)


@every_algorithm
def test_negative_zero_is_zero(algorithm: str) -> None:
    ends = []
    for zero in (0.0, -0.0):
        trainer = _trainer(f"algorithm={algorithm}", "cluster.workers=2", "lr=0.01")
        gradients, statistics = trainer.task.gradients(trainer.state.replica.x, trainer.statistics, 1)
        gradients = torch.where(torch.arange(gradients.shape[-1]) % 3 == 0, zero, gradients)
        trainer.task.gradients = lambda x, before, t, same=(gradients, statistics): same
        for _ in range(5):
            trainer.step()
        ends.append(trainer.state.replica.x)
    assert torch.equal(*ends)


def _trainer(*overrides: str) -> Trainer:
    """One on breast_cancer unless said."""
    return build_trainer(configuration("task=logreg/breast_cancer", "rounds=20", *overrides), Ranks())


def _steps(trainer: Trainer, count: int) -> dict:
    """The row of the first trial after so many rounds. Raises RunError where it is not finite."""
    for _ in range(count):
        trainer.step()
    return trainer.evaluate()[0]
