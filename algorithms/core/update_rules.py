"""Update rules on flat vectors: SGD, Adam and AMSGrad.

u is the received signal g̃_t [*T, d], α the step size (a float or [*T, 1]), t the round from 1. Weight decay λ is
never sent: u ← u + λx on the replica, or x ← x − αλx if `decoupled` (AdamW's form).
"""

from abc import ABC, abstractmethod
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor

from ..utils.words import check_words

Moments = Any
"""An update's state: a named tuple of vectors [*T, d], or () if it has none."""

Lr = float | Tensor
"""A step size α: one for all trials, or one per trial [*T, 1]."""

in_place = ContextVar("in_place", default=False)
"""Whether new states overwrite the memory of old ones."""


def memory_of(old: Tensor, otherwise: Tensor | None = None) -> Tensor | None:
    """Return the `out=` of an operation that replaces `old`: `old` in a round in place, else `otherwise`.

    None: new memory."""
    return old if in_place.get() else otherwise


class Momentum(NamedTuple):
    m: Tensor


class AdamMoments(NamedTuple):
    m: Tensor
    v: Tensor


class AMSGradMoments(NamedTuple):
    m: Tensor
    v: Tensor
    v_hat: Tensor


def check_range(of: object, *names: str, span: str = "[0, 1)") -> None:
    """Raise ValueError if an attribute is a number outside `span`, an interval from 0 to 1."""
    for name in names:
        value = getattr(of, name)
        ends = {0: "[" in span, 1: "]" in span}
        if value is not None and not (0 < value < 1 or ends.get(value)):
            raise ValueError(f"{name}={value}: must lie in {span}")


@dataclass(frozen=True, kw_only=True)
class Update(ABC):
    """The step of every replica with the received signal."""

    weight_decay: float = 0.0  # λ of u ← u + λx, added on the replica
    decoupled: bool = False  # true: x ← x − αλx instead

    is_coordinatewise: ClassVar[bool] = False
    """Whether coordinates of messages and steps are independent of each other. Every subclass sets its own."""

    def __post_init__(self) -> None:
        check_words(type(self), vars(self))
        if not 0 <= self.weight_decay < inf:
            raise ValueError(f"weight_decay={self.weight_decay}: must be finite and not negative")

    def hyperparameters(self) -> dict[str, Any]:
        """Return the settings that may change in every round, by torch's names for them."""
        return {"weight_decay": self.weight_decay}

    def with_hyperparameters(self, **values: Any) -> Self:
        """Return this update with other `hyperparameters`. Raises ValueError for one outside its range."""
        return replace(self, **values)

    @abstractmethod
    def start(self, x: Tensor) -> Moments:
        """Return the moments before the first round."""

    def receives_gradient(self, t: int) -> bool:
        """Whether the signal of round t is a gradient, so that the replica adds weight decay to it."""
        return True

    def worker_message(self, gradient: Tensor, x: Tensor, moments: Moments, t: int) -> Tensor:
        """Return the vectors to send for gradients [*T, W, d]: by default the gradients."""
        return gradient

    @abstractmethod
    def direction(self, u: Tensor, moments: Moments, t: int) -> tuple[Tensor, Moments]:
        """Return the direction of x ← x − α·direction, and the new moments."""

    def step(self, x: Tensor, u: Tensor, moments: Moments, lr: Lr, t: int) -> tuple[Tensor, Moments]:
        """Return x_{t+1} [*T, d] and the new moments."""
        if self.weight_decay and not self.decoupled and self.receives_gradient(t):
            u = u + self.weight_decay * x
        direction, moments = self.direction(u, moments, t)
        if self.weight_decay and self.decoupled:
            x = torch.mul(x, 1 - lr * self.weight_decay, out=memory_of(x))
        step = lr * direction
        return torch.sub(x, step, out=memory_of(x, step)), moments

    def second_moment(self, moments: Moments) -> Tensor | None:
        """Return the vector under the root of the step, v̂ or v; None if there is none."""
        return None

    def check(self, d: int) -> None:  # noqa: B027
        """Raise ValueError if this update cannot step d coordinates."""


@dataclass(frozen=True, kw_only=True)
class SGD(Update):
    """x ← x − αu, or with momentum μ: x ← x − αb, b₁ = u₁, b_t = μb_{t−1} + (1 − dampening)u_t, as in torch."""

    momentum: float = 0.0  # μ of b ← μb + (1 − dampening)u
    dampening: float = 0.0  # of u in b

    is_coordinatewise = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "momentum", "dampening")

    def hyperparameters(self) -> dict[str, Any]:
        # Without momentum there is no buffer, so a scheduler cannot add momentum later.
        return super().hyperparameters() | ({"momentum": self.momentum} if self.momentum else {})

    def start(self, x: Tensor) -> Moments:
        return Momentum(m=torch.zeros_like(x)) if self.momentum else ()

    def direction(self, u: Tensor, moments: Moments, t: int) -> tuple[Tensor, Moments]:
        if not moments:
            return u, moments
        m = u if t == 1 else self.momentum * moments.m + (1 - self.dampening) * u
        return m, Momentum(m=m)


@dataclass(frozen=True, kw_only=True)
class Adaptive(Update):
    """Common base of Adam and AMSGrad: two moments and the form of the step. w is v in Adam and v̂ in AMSGrad.

    `form: paper`        x ← x − α·m/√(w + ν), ν inside the root (CD-Adam paper, section 3);
    `form: uncorrected`  x ← x − α·m/(√w + ν) (DeepSpeed's 1-bit Adam);
    `form: torch`        x ← x − α/(1−β₁^t)·m/(√w/√(1−β₂^t) + ν), torch.optim's and the CD-Adam authors' code.
    ν inside the root acts like √ν outside.
    """

    beta1: float = 0.9  # β₁, how much of m is kept each round
    beta2: float = 0.99  # β₂, how much of v is kept each round
    nu: float = 1e-8  # ν, keeps the denominator from zero
    form: Literal["paper", "uncorrected", "torch"] = "paper"  # ν inside the root, outside, or with bias correction

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "beta1", "beta2")
        if not self.nu > 0:  # also nan
            raise ValueError(f"nu={self.nu}: must be positive, or a coordinate without gradient divides 0 by 0")

    def hyperparameters(self) -> dict[str, Any]:
        return super().hyperparameters() | {"betas": (self.beta1, self.beta2)}

    def with_hyperparameters(self, **values: Any) -> Self:
        if "betas" in values:
            values["beta1"], values["beta2"] = values.pop("betas")
        return super().with_hyperparameters(**values)

    def _averages(self, u: Tensor, moments: Moments) -> tuple[Tensor, Tensor]:
        """m ← β₁m + (1−β₁)u and v ← β₂v + (1−β₂)u² (Algorithm 1, lines 13 and 14)."""
        m = torch.lerp(moments.m, u, 1 - self.beta1, out=memory_of(moments.m))
        v = torch.mul(moments.v, self.beta2, out=memory_of(moments.v)).addcmul_(u, u, value=1 - self.beta2)
        return m, v

    def _direction(self, m: Tensor, w: Tensor, t: int) -> Tensor:
        if self.form == "paper":
            root = (w + self.nu).sqrt_()
        elif self.form == "uncorrected":
            root = w.sqrt().add_(self.nu)
        else:
            first, second = 1 - self.beta1**t, 1 - self.beta2**t
            root = w.sqrt().mul_(first / second**0.5).add_(first * self.nu)
        return torch.div(m, root, out=memory_of(root))


@dataclass(frozen=True, kw_only=True)
class Adam(Adaptive):
    """m ← β₁m + (1−β₁)u, v ← β₂v + (1−β₂)u², x ← x − α·m/√(v + ν) (Kingma and Ba 2014; forms above)."""

    is_coordinatewise = True

    def start(self, x: Tensor) -> AdamMoments:
        return AdamMoments(m=torch.zeros_like(x), v=torch.zeros_like(x))

    def direction(self, u: Tensor, moments: AdamMoments, t: int) -> tuple[Tensor, AdamMoments]:
        m, v = self._averages(u, moments)
        return self._direction(m, v, t), AdamMoments(m=m, v=v)

    def second_moment(self, moments: AdamMoments) -> Tensor:
        return moments.v


@dataclass(frozen=True, kw_only=True)
class AMSGrad(Adaptive):
    """Adam with v̂ ← max(v̂, v) under the root (Reddi et al. 2019; Algorithm 1, lines 13 to 16)."""

    is_coordinatewise = True

    def start(self, x: Tensor) -> AMSGradMoments:
        return AMSGradMoments(m=torch.zeros_like(x), v=torch.zeros_like(x), v_hat=torch.zeros_like(x))

    def direction(self, u: Tensor, moments: AMSGradMoments, t: int) -> tuple[Tensor, AMSGradMoments]:
        m, v = self._averages(u, moments)
        v_hat = torch.maximum(moments.v_hat, v, out=memory_of(moments.v_hat))
        return self._direction(m, v_hat, t), AMSGradMoments(m=m, v=v, v_hat=v_hat)

    def second_moment(self, moments: AMSGradMoments) -> Tensor:
        return moments.v_hat
