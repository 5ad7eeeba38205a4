"""LAMB, uncompressed: Adam's step, scaled to the length of each tensor."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..utils.layout import Layout, check_layout
from .bases import Adam, Algorithm, Direct, Floats, Lr, Moments

LEAST, MOST = 0.01, 10.0  # bounds of the ratio of lengths, as in DeepSpeed


@dataclass(frozen=True, kw_only=True)
class Lamb(Adam):
    layout: Layout = ()

    def step(self, x: Tensor, u: Tensor, moments: Moments, lr: Lr, t: int) -> tuple[Tensor, Moments]:
        direction, moments = self.direction(u, moments, t)
        direction = direction + self.weight_decay * x
        return x - lr * self.spread(self.ratio(x, direction)) * direction, moments

    def ratio(self, x: Tensor, direction: Tensor) -> Tensor:
        """Return r [*T, B] for the B tensors."""
        lengths, steps = self.lengths(x), self.lengths(direction)
        return torch.where((lengths > 0) & (steps > 0), (lengths / steps).clamp(LEAST, MOST), 1.0)

    def lengths(self, vectors: Tensor) -> Tensor:
        """Return the norm of every tensor [*T, B]."""
        return self.measure_tensors(vectors, lambda part: torch.linalg.vector_norm(part, dim=-1))

    def measure_tensors(self, vectors: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a function to every tensor [*T, size], and stack the numbers: [*T, B]."""
        return torch.stack([function(block.view(vectors).flatten(-2)) for block in self.layout], -1)

    def spread(self, numbers: Tensor) -> Tensor:
        """Expand numbers of tensors [*T, B] to vectors [*T, d]."""
        columns = zip(numbers.unbind(-1), self.layout, strict=True)
        return torch.cat([one.unsqueeze(-1).expand(*one.shape, block.size) for one, block in columns], -1)

    def check(self, d: int) -> None:
        check_layout(self.layout, d)


def lamb(
    compressor: Floats,
    layout: Layout = (),
    beta1: float = 0.9,  # β₁, how much of m is kept each round
    beta2: float = 0.999,  # β₂, how much of v is kept each round
    eps: float = 1e-8,  # ε, added to the root of v
    weight_decay: float = 0.0,  # λ, added to the step before its length is taken
) -> Algorithm:
    """The baseline of 1-bit LAMB: Adam with every tensor's step scaled to the tensor's length.

        all      ḡ = mean_i g_i
        replica  m ← β₁m + (1−β₁)ḡ,  v ← β₂v + (1−β₂)ḡ²,  U = m/(√v + ε) + λx
                 x_j ← x_j − α·r_j·U_j of every tensor j,  r_j = ‖x_j‖/‖U_j‖ within [0.01, 10], 1 where one is zero

    All tensors are treated alike, independent of their roles.
    State: replica, m and v [d].
    Wire: 32d bits up, 32d down. With the casts bf16, fp16 and fp8 one message of C each way, for g_i and for ḡ.
    Source: You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, 2020 (arXiv
    1904.00962), as in the warm-up of DeepSpeed's 1-bit LAMB: no bias correction, ε outside the root.
    """
    update = Lamb(layout=layout, beta1=beta1, beta2=beta2, nu=eps, form="uncorrected", weight_decay=weight_decay)
    return Algorithm.from_channel(Direct(compressor), update)
