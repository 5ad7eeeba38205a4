"""How long runs will take, measured on this machine before the first of them begins."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from experiments import identity
from experiments.build import build_trainer
from experiments.cluster.ranks import Ranks
from experiments.compose import Config
from experiments.evaluations import evaluations
from experiments.memory import explained
from experiments.results import RunFolder
from experiments.trainer import Trainer

_ROUNDS = 3  # timed, after one that is not
_SMALL = 1e-9


@dataclass(frozen=True)
class Pace:
    """Seconds that a round and an evaluation take."""

    round: float
    evaluation: float

    def seconds(self, config: Config) -> float:
        """Of a whole run."""
        return self.round * config["rounds"] + self.evaluation * evaluations(config)


def estimate(configs: list[Config], ranks: Ranks) -> tuple[int, float]:
    """How many of the runs are not finished yet, and the seconds they will take from their beginning.

    One run of every task and number of step sizes is tried: methods differ little in what a round takes.
    """
    folders = [RunFolder(identity.folder(config), ranks) for config in configs]
    done = [ranks.told(folder.is_finished()) for folder in folders]
    waiting = [config for config, finished in zip(configs, done, strict=True) if not finished]
    paces: dict[str, Pace] = {}
    for config in waiting:
        kind = _kind(config)
        if kind not in paces:
            with explained():
                # Steps too small to diverge: a step size that does is for its run to report.
                trainer = build_trainer({**config, "lr": [lr * _SMALL for lr in config["lr"]]}, ranks)
            with explained(trainer):
                paces[kind] = _measured(trainer)
    return len(waiting), sum(paces[_kind(config)].seconds(config) for config in waiting)


def _kind(config: Config) -> str:
    return json.dumps([config["task"], config["cluster"]["workers"], len(config["lr"])], sort_keys=True)


def _measured(trainer: Trainer) -> Pace:
    trainer.rounds = max(trainer.rounds, _ROUNDS + 1)  # schedules take shares of it
    trainer.step()
    begin = time.perf_counter()
    for _ in range(_ROUNDS):
        trainer.step()
    trainer.verify()  # which waits for a GPU
    middle = time.perf_counter()
    trainer.evaluate()
    return Pace((middle - begin) / _ROUNDS, time.perf_counter() - middle)
