"""The rounds of one run, and what is measured between them."""

from __future__ import annotations

import time
from dataclasses import asdict

import torch
from torch import Tensor

from algorithms.meter import Meter
from algorithms.protocol import Algorithm
from algorithms.schedules import SCHEDULES
from experiments.cluster.simulated import ClusterState, Simulated
from experiments.errors import RunError
from experiments.tasks.logreg import LogisticRegression


class Trainer:
    """Trains all trials of a run, one per step size, in one batch.

    `t` is the number of rounds done.
    """

    def __init__(
        self,
        task: LogisticRegression,
        algorithm: Algorithm,
        *,
        lrs: list[float],
        rounds: int,
        schedule: str = "constant",
        seed: int = 0,
    ) -> None:
        algorithm.check(task.d)
        self.task, self.algorithm, self.lrs, self.rounds = task, algorithm, lrs, rounds
        self.schedule = SCHEDULES[schedule]
        self._lr = torch.tensor(lrs, dtype=task.dtype).unsqueeze(-1)
        self.cluster = Simulated(algorithm, task.workers, seed)
        self.t = 0
        self.meter = Meter()
        self.seconds = 0.0  # of training; evaluation is not counted
        self.state = self.cluster.start(task.start().expand(len(lrs), -1).clone())
        self.diagnostics: dict[str, Tensor] = {}

    def step(self, diagnose: bool = False) -> None:
        """One round. With `diagnose` the errors of its compressed gradient are kept for the next `evaluate`."""
        begin, t = time.perf_counter(), self.t + 1
        gradients = self.task.gradients(self.state.replica.x, t)
        self._require_finite("local gradient", gradients.sum(-1), t)
        lr = self._lr * self.schedule(t, self.rounds)
        before = self.state
        self.state, self.t = self.cluster.round(gradients, before, lr, t), t
        self.meter.count(self.algorithm, self.task.d, t, self.task.dtype)
        self.seconds += time.perf_counter() - begin
        self.diagnostics = {}
        if diagnose:
            wanted, _ = self.algorithm.outgoing(gradients, before.workers, before.replica, lr, t)
            self.diagnostics = self._diagnose(wanted.mean(-2))

    def evaluate(self) -> list[dict[str, float | int | None]]:
        """One row per trial: the model after t rounds, what they cost, and the last round's compression errors."""
        measured = self.task.evaluate(self.state.replica.x) | self.diagnostics
        for quantity, values in measured.items():
            self._require_finite(quantity, values.unsqueeze(-1), self.t)
        common = {"round": self.t, "epoch": self.task.epoch(self.t), **self._cost()}
        columns = {name: values.tolist() for name, values in measured.items()}
        return [
            {**common, "trial": trial, "lr": lr, **{name: values[trial] for name, values in columns.items()}}
            for trial, lr in enumerate(self.lrs)
        ]

    def state_dict(self) -> dict:
        """Everything that a resumed run needs, in tensors and plain numbers."""
        return {
            "t": self.t,
            "seconds": self.seconds,
            "meter": asdict(self.meter),
            "cluster": self.state.state_dict(),
        }

    def load_state_dict(self, state: dict) -> None:
        """Go on from where `state_dict` was taken."""
        self.t, self.seconds = state["t"], state["seconds"]
        self.meter = Meter(**state["meter"])
        self.state = ClusterState.from_state_dict(state["cluster"])

    def _cost(self) -> dict[str, float | int]:
        return {
            "bits_up": self.meter.bits_up,
            "bits_down": self.meter.bits_down,
            "bits": self.meter.bits,
            "payload_bytes": self.meter.payload_bytes,
            "seconds": self.seconds,
        }

    def _diagnose(self, mean: Tensor) -> dict[str, Tensor]:
        """‖ĝ − w‖₂ and ‖g̃ − w‖₂ of the round just done, and Σ_k v̂_k where the update has it.

        w = mean_i w_i is the mean of what the workers wanted to send, their gradients for most methods.
        """
        replica = self.state.replica
        second_moment = self.algorithm.update.second_moment(replica.moments)
        return {
            "aggregate_error": torch.linalg.vector_norm(self.state.server.aggregate - mean, dim=-1),
            "signal_error": torch.linalg.vector_norm(replica.signal - mean, dim=-1),
            **({} if second_moment is None else {"second_moment": second_moment.sum(-1)}),
        }

    def _require_finite(self, quantity: str, values: Tensor, t: int) -> None:
        """Stop where values [T, W] (or [T, 1] for what all workers share) are not all finite."""
        if torch.isfinite(values.sum()):
            return
        wrong = (~torch.isfinite(values)).nonzero().tolist()
        if not wrong:
            return
        trial, worker = wrong[0]
        where = f"worker {worker}, " if values.shape[-1] == self.task.workers else "all workers, "
        advice = (
            "A smaller step size, or leaving this one out of the grid, avoids it; rows up to here are kept"
            if self.t
            else "No step was taken yet: look for values in the data or settings that overflow"
        )
        which = f"trial {trial} (lr={self.lrs[trial]})"
        raise RunError(f"round {t}, {where}{which}: {quantity} is {values[trial, worker].item()}. {advice}")
