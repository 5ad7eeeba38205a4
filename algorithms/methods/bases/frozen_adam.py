"""Adam with a second moment frozen after a warm-up, the base of 1-bit Adam, QAdam and APMSqueeze."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ...utils.rounding import floored_share
from . import Adam, AdamMoments


@dataclass(frozen=True, kw_only=True)
class FrozenAdam(Adam):
    """Adam for `warmup` rounds, then momentum with a fixed preconditioner: the steps of `onebit_adam`.

    floor: after the warm-up the step is x ← x − α·m/√max(v, floor).
    mask: after the warm-up m is zero where v is zero, because one bit cannot code zero momentum of coordinates
    without gradient (DeepSpeed's momentum mask).
    """

    warmup: int
    signal: Literal["momentum", "gradient"] = "momentum"
    mask: bool = True
    floor: float | None = None

    is_coordinatewise = True

    def receives_gradient(self, t: int) -> bool:
        return t <= self.warmup or self.signal == "gradient"

    def worker_message(self, gradient: Tensor, x: Tensor, moments: AdamMoments, t: int) -> Tensor:
        if self.receives_gradient(t):
            return gradient
        if self.weight_decay and not self.decoupled:
            gradient = gradient + self.weight_decay * x.unsqueeze(-2)
        return self.beta1 * moments.m.unsqueeze(-2) + (1 - self.beta1) * gradient

    def direction(self, u: Tensor, moments: AdamMoments, t: int) -> tuple[Tensor, AdamMoments]:
        if t <= self.warmup:
            return super().direction(u, moments, t)
        v = moments.v
        m = u if self.signal == "momentum" else self.beta1 * moments.m + (1 - self.beta1) * u
        if self.mask:
            m = torch.where(v > 0, m, 0)
        direction = self._direction(m, v, t) if self.floor is None else m / v.clamp(min=self.floor).sqrt()
        return direction, AdamMoments(m=m, v=v)


def warmup_rounds(warmup: float, rounds: int) -> int:
    """Return T_w: `warmup` if it is an integer number of rounds, ⌊warmup·rounds⌋ if it is a share.

    Raises ValueError unless 1 ≤ T_w < rounds.
    """
    count = warmup if isinstance(warmup, int) else floored_share(warmup, rounds)
    if not 1 <= count < rounds:
        raise ValueError(
            f"warmup={warmup}: {count} of {rounds} rounds; the warm-up takes at least one round and is shorter than "
            "the run (a share such as 0.13, or a number of rounds)"
        )
    return count
