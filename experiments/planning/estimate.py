"""How long runs will take, measured on this machine before the first of them begins."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import torch

from experiments.cluster.ranks import Ranks
from experiments.config import identity
from experiments.config.compose import Config
from experiments.config.evaluations import evaluations
from experiments.record.folder import RunFolder
from experiments.training.build import build_trainer
from experiments.training.memory import explained
from experiments.training.trainer import Trainer

_ROUNDS = 3  # timed, after one that is not
_SMALL = 1e-9


@dataclass(frozen=True)
class Trial:
    """What a few rounds of one run told about all runs of its kind."""

    d: int
    sizes: tuple[int, ...]  # of the parameter tensors
    dtype: torch.dtype
    round: float  # seconds
    evaluation: float  # seconds

    def seconds(self, config: Config, done: int = 0) -> float:
        """Of a whole run, or of what is left of it after `done` rounds."""
        whole = self.round * config["rounds"] + self.evaluation * evaluations(config)
        return whole * (1 - done / config["rounds"])


def estimate(configs: list[Config], ranks: Ranks) -> tuple[int, float]:
    """How many of the runs are not finished yet, and the seconds they will take from their beginning.

    One run of every kind is tried.
    """
    folders = [RunFolder(identity.folder(config), ranks) for config in configs]
    done = [ranks.told(folder.is_finished()) for folder in folders]
    waiting = [config for config, finished in zip(configs, done, strict=True) if not finished]
    trials: dict[str, Trial] = {}
    for config in waiting:
        if kind(config) not in trials:
            trials[kind(config)] = trial(config, ranks)
    return len(waiting), sum(trials[kind(config)].seconds(config) for config in waiting)


def kind(config: Config) -> str:
    """What one trial serves: a task and a number of step sizes. Methods differ little in what a round takes."""
    return json.dumps([config["task"], config["cluster"]["workers"], len(config["lr"])], sort_keys=True)


def trial(config: Config, ranks: Ranks) -> Trial:
    """Train a few rounds that leave nothing behind.

    Raises UsageError or DataError for what does not fit together, RunError where memory does not suffice, and
    LostContact.
    """
    with explained():
        # Steps too small to diverge: a step size that does is for its run to report.
        trainer = build_trainer({**config, "lr": [lr * _SMALL for lr in config["lr"]]}, ranks)
    with explained(trainer):
        return _measured(trainer)


def _measured(trainer: Trainer) -> Trial:
    trainer.rounds = max(trainer.rounds, _ROUNDS + 1)  # schedules take shares of it
    trainer.step()
    begin = time.perf_counter()
    for _ in range(_ROUNDS):
        trainer.step()
    trainer.verify()  # which waits for a GPU
    middle = time.perf_counter()
    trainer.evaluate()
    task, end = trainer.task, time.perf_counter()
    return Trial(task.d, task.sizes, task.dtype, round=(middle - begin) / _ROUNDS, evaluation=end - middle)
