"""Numbers at the ends of the range, and runs of the smallest size: a defined result each, for every algorithm."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from run_support import configuration

from algorithms.registry import parameters
from common.errors import RunError
from experiments.cluster.ranks import Ranks
from experiments.config.compose import ROOT
from experiments.training.build import build_trainer
from experiments.training.trainer import Trainer

FAST = {"cd_adam", "demo", "onebit_lamb", "quantized_adam"}
every_algorithm = pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in sorted(file.stem for file in (ROOT / "conf" / "algorithm").glob("[!_]*.yaml"))
    ],
)
ROWS = 40


def task(folder: Path, value: str, features: int = 1) -> list[str]:
    """The overrides of a run on forty rows, two of three with one label, whose features all have a value."""
    file = folder / f"{features}-{value}.svm"
    row = " ".join(f"{feature}:{value}" for feature in range(1, features + 1))
    file.write_text("".join(f"{j % 3 // 2} {row}\n" for j in range(ROWS)))
    return ["task=logreg/file", f"task.dataset.file={file}", "rounds=20", "lr=0.001", f"results_dir={folder / 'r'}"]


@every_algorithm
def test_the_ends_of_the_range(algorithm: str, tmp_path: Path) -> None:
    """Gradients whose squares are infinite, and for ever an average of these; denormal ones, whose squares are zero;
    one coordinate, or one more than fill a byte; one worker, or one row a worker."""
    usual = configuration(*task(tmp_path, "0.5"), f"algorithm={algorithm}")

    def trainer(value: str, features: int, workers: int = 20) -> Trainer:
        file = task(tmp_path, value, features)[1].partition("=")[2]
        dataset = {**usual.task.options["dataset"], "file": file, "sha256": None}
        its_task = replace(usual.task, options={**usual.task.options, "dataset": dataset})
        often = {"period": 5} if "period" in usual.algorithm.options else {}
        method = replace(usual.algorithm, options={**usual.algorithm.options, **often})
        cluster = replace(usual.cluster, workers=workers)
        return build_trainer(replace(usual, task=its_task, algorithm=method, cluster=cluster), Ranks())

    overflowing = trainer("1e200", 1)
    if algorithm in ("signum", "distributed_lion", "demo"):  # they step by signs
        _steps(overflowing, 10)
    else:
        with pytest.raises(RunError, match=r"round \d+, "):
            _steps(overflowing, 10)
    _steps(trainer("1e-310", 9), 5)
    for features, workers in ((1, 1), (9, ROWS)):
        smallest = trainer("0.5", features, workers)
        [first] = smallest.evaluate()
        assert _steps(smallest, 20)["train_loss"] < first["train_loss"]


def test_an_overflow_at_one_worker_names_it() -> None:
    trainer = _trainer("algorithm=quantized_adam", "cluster.workers=2", "lr=[0.1,0.2]")
    for _ in range(2):
        trainer.step()
    trainer.evaluate()
    trainer.state.workers.moments.v[1, 1, 3] = torch.inf
    with pytest.raises(RunError, match=r"round 2, worker 1, trial 1 \(lr=0\.2\): workers\.moments\.v is not"):
        trainer.evaluate()


@every_algorithm
def test_negative_zero_is_zero(algorithm: str) -> None:
    ends, often = [], ["algorithm.period=2"] if "period" in parameters(algorithm) else []
    for zero in (0.0, -0.0):
        trainer = _trainer(f"algorithm={algorithm}", "cluster.workers=2", *often)
        gradients, statistics = trainer.task.gradients(trainer.state.replica.x, trainer.statistics, 1)
        gradients = torch.where(torch.arange(gradients.shape[-1]) % 3 == 0, zero, gradients)
        trainer.task.gradients = lambda x, before, t, same=(gradients, statistics): same
        _steps(trainer, 5)
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
