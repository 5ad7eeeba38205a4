"""How a replica moves: SGD, Adam and AMSGrad on flat vectors.

u is the received signal g̃_t [*T, d], α the step size (a float or [*T, 1]), t the round from 1. Weight decay λ never
crosses the wire: u ← u + λx on the replica, or x ← x − αλx where `decoupled` (AdamW's form).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass
class Moments:
    """What an update remembers; None where it keeps no such vector."""

    m: Tensor | None = None  # [*T, d] first moment, or SGD's momentum buffer
    v: Tensor | None = None  # [*T, d] second moment
    v_hat: Tensor | None = None  # [*T, d] its running maximum


@dataclass(frozen=True, kw_only=True)
class Update(ABC):
    """The step every replica takes with the signal that all of them received."""

    weight_decay: float = 0.0
    decoupled: bool = False

    def __post_init__(self) -> None:
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay={self.weight_decay}: must not be negative")

    @abstractmethod
    def start(self, x: Tensor) -> Moments:
        """The moments before the first round."""

    def receives_gradient(self, t: int) -> bool:
        """Whether what the replica receives in round t is a gradient, to which weight decay is still to be added."""
        return True

    def outgoing(self, gradient: Tensor, x: Tensor, moments: Moments, t: int) -> Tensor:
        """What the workers send for gradients [*T, W, d]: these, unless the method forms something from them."""
        return gradient

    @abstractmethod
    def direction(self, u: Tensor, moments: Moments, t: int) -> tuple[Tensor, Moments]:
        """What is subtracted from x per unit of step size, and the new moments."""

    def step(self, x: Tensor, u: Tensor, moments: Moments, lr: float | Tensor, t: int) -> tuple[Tensor, Moments]:
        """x_{t+1} [*T, d] and the new moments."""
        if self.weight_decay and not self.decoupled and self.receives_gradient(t):
            u = u + self.weight_decay * x
        direction, moments = self.direction(u, moments, t)
        if self.weight_decay and self.decoupled:
            x = x - lr * self.weight_decay * x
        return x - lr * direction, moments

    def second_moment(self, moments: Moments) -> Tensor | None:
        """The vector under the root of the step, v̂ or v; None for updates that have none."""
        return moments.v if moments.v_hat is None else moments.v_hat


@dataclass(frozen=True, kw_only=True)
class SGD(Update):
    """x ← x − αu, or with momentum μ: x ← x − αb, b₁ = u₁, b_t = μb_{t−1} + (1 − dampening)u_t, as in torch."""

    momentum: float = 0.0
    dampening: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("momentum", "dampening"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must lie in [0, 1)")

    def start(self, x: Tensor) -> Moments:
        return Moments(m=torch.zeros_like(x)) if self.momentum else Moments()

    def direction(self, u: Tensor, moments: Moments, t: int) -> tuple[Tensor, Moments]:
        if not self.momentum:
            return u, moments
        m = u if t == 1 else self.momentum * moments.m + (1 - self.dampening) * u
        return m, Moments(m=m)


@dataclass(frozen=True, kw_only=True)
class Adaptive(Update):
    """What Adam and AMSGrad share: two moments and the form of the step.

    `form: paper`        x ← x − α·m/√(w + ν), ν inside the root (CD-Adam paper, section 3);
    `form: uncorrected`  x ← x − α·m/(√w + ν) (DeepSpeed's 1-bit Adam);
    `form: torch`        x ← x − α/(1−β₁^t)·m/(√w/√(1−β₂^t) + ν), torch.optim's and the CD-Adam authors' code,
    with w = v for Adam and w = v̂ for AMSGrad. The paper names no value of ν: 1e-8 is its authors' code's.
    """

    beta1: float = 0.9
    beta2: float = 0.99
    nu: float = 1e-8
    form: Literal["paper", "uncorrected", "torch"] = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must lie in [0, 1)")
        if self.nu <= 0:
            raise ValueError(f"nu={self.nu}: must be positive, or a coordinate without gradient divides 0 by 0")
        if self.form not in ("paper", "uncorrected", "torch"):
            raise ValueError(f"form={self.form!r}: must be 'paper', 'uncorrected' or 'torch'")

    def _averages(self, u: Tensor, moments: Moments) -> tuple[Tensor, Tensor]:
        """m ← β₁m + (1−β₁)u and v ← β₂v + (1−β₂)u² (Algorithm 1, lines 13 and 14)."""
        m = self.beta1 * moments.m + (1 - self.beta1) * u
        v = self.beta2 * moments.v + (1 - self.beta2) * u * u
        return m, v

    def _direction(self, m: Tensor, w: Tensor, t: int) -> Tensor:
        if self.form == "paper":
            return m / (w + self.nu).sqrt()
        if self.form == "uncorrected":
            return m / (w.sqrt() + self.nu)
        root = w.sqrt() / (1 - self.beta2**t) ** 0.5 + self.nu
        return m / root / (1 - self.beta1**t)


@dataclass(frozen=True, kw_only=True)
class Adam(Adaptive):
    """m ← β₁m + (1−β₁)u, v ← β₂v + (1−β₂)u², x ← x − α·m/√(v + ν) (Kingma and Ba 2014; forms above)."""

    def start(self, x: Tensor) -> Moments:
        return Moments(m=torch.zeros_like(x), v=torch.zeros_like(x))

    def direction(self, u: Tensor, moments: Moments, t: int) -> tuple[Tensor, Moments]:
        m, v = self._averages(u, moments)
        return self._direction(m, v, t), Moments(m=m, v=v)


@dataclass(frozen=True, kw_only=True)
class AMSGrad(Adaptive):
    """Adam with v̂ ← max(v̂, v) under the root (Reddi et al. 2019; Algorithm 1, lines 13 to 16)."""

    def start(self, x: Tensor) -> Moments:
        return Moments(m=torch.zeros_like(x), v=torch.zeros_like(x), v_hat=torch.zeros_like(x))

    def direction(self, u: Tensor, moments: Moments, t: int) -> tuple[Tensor, Moments]:
        m, v = self._averages(u, moments)
        v_hat = torch.maximum(moments.v_hat, v)
        return self._direction(m, v_hat, t), Moments(m=m, v=v, v_hat=v_hat)
