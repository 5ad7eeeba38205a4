"""Local steps: workers step alone for some rounds, then exchange their models."""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from . import Algorithm, Lr, ReplicaState, Stage, Update, Wanted, WorkerState
from .server_weights import worker_lr


class OuterMomentum(NamedTuple):
    b: Tensor


@dataclass(frozen=True, kw_only=True)
class Nesterov(Update):
    """b ← μb + u, x ← x − η(u + μb), as in torch's SGD(nesterov=True). η = `rate`, not the run's step size."""

    rate: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rate > 0:
            raise ValueError(f"outer_lr={self.rate}: must be positive")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"outer_momentum={self.momentum}: must lie in [0, 1)")

    def start(self, x: Tensor) -> OuterMomentum:
        return OuterMomentum(b=torch.zeros_like(x))

    def direction(self, u: Tensor, moments: OuterMomentum, t: int) -> tuple[Tensor, OuterMomentum]:
        b = self.momentum * moments.b + u
        return u + self.momentum * b, OuterMomentum(b=b)

    def step(self, x: Tensor, u: Tensor, moments: OuterMomentum, lr: Lr, t: int) -> tuple[Tensor, OuterMomentum]:
        return super().step(x, u, moments, self.rate, t)


@dataclass(frozen=True, kw_only=True)
class LocalSteps(Algorithm):
    """Rounds in which worker i moves its own x_i by the `inner` update, H = `period` from exchange to exchange.

    In an exchange Δ_i = x − x_i goes up, replicas make the outer step, `update`, with the received signal, and every
    x_i ← x. Workers keep the inner moments. A run's step size is the inner update's.
    """

    inner: Update
    period: int

    is_coordinatewise = True
    has_local_models = True
    needs_all = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.period, Integral) or self.period < 1:
            raise ValueError(f"period={self.period}: must be a whole number, at least 1")

    def start_workers(self, x: Tensor, ids: Tensor) -> WorkerState:
        models = x.unsqueeze(-2).repeat_interleave(len(ids), -2)
        return replace(super().start_workers(x, ids), moments=self.inner.start(models), x=models)

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        return () if t % self.period else (self,)

    def local_step(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> WorkerState:
        x, moments = self.inner.step(state.x, gradient, state.moments, worker_lr(lr), t)
        return replace(state, x=x, moments=moments)

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        return replica.x.unsqueeze(-2) - state.x, state.moments

    def sync_workers(self, state: WorkerState, replica: ReplicaState, t: int) -> WorkerState:
        return replace(state, x=replica.x.unsqueeze(-2).repeat_interleave(len(state.ids), -2))

    def check(self, d: int) -> None:
        super().check(d)
        self.inner.check(d)

    def hyperparameters(self) -> dict[str, Any]:
        return self.inner.hyperparameters()

    def with_hyperparameters(self, **values: Any) -> Self:
        return replace(self, inner=self.inner.with_hyperparameters(**values))
