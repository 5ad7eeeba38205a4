"""Unbiased rounding to equally spaced levels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .scaled_codes import ScaledCodes
from .shard import Shard, euclidean, uniform


@dataclass(frozen=True)
class Qsgd(ScaledCodes):
    """C(x)_j = ‖x‖₂ sgn(x_j) ξ_j/s with ξ_j = ⌊ℓ_j⌋ + Bernoulli(ℓ_j − ⌊ℓ_j⌋), ℓ_j = s|x_j|/‖x‖₂, s = `levels`.

    ⌈log₂(2s + 1)⌉·d + 32 bits: 4d + 32 for s = 7. Payload: packed codes and ‖x‖₂. 1 ≤ s ≤ 32767.
    E C(x) = x and E‖C(x) − x‖² ≤ min(d/s², √d/s)·‖x‖². A constant vector with s ≤ √d comes to (√d/s − 1)‖x‖²: no
    contraction for large d, so error feedback and the Markov sequence refuse it. Trials of one batch share the draw.

    Source: QSGD (Alistarh et al. 2017), without its Elias coding: codes are of fixed width. GRACE's code has s = 127
    in one byte, another byte a coordinate above that, and returns NaN for the zero vector, which is zero here. Its
    distributed variant takes a norm per 128 coordinates; this is one norm for the vector.
    """

    levels: int = 7  # s; 7 makes 4 bits a coordinate

    contractive = False
    unbiased = True

    def __post_init__(self) -> None:
        if self.levels not in range(1, 2**15):
            raise ValueError(f"levels={self.levels}: qsgd takes 1 to {2**15 - 1} levels, so that codes fit 16 bits")

    @property
    def top(self) -> int:
        return self.levels

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from the levels
        return (2 * self.levels).bit_length()

    def omega(self, d: int) -> float:
        return min(d / self.levels**2, d**0.5 / self.levels)

    def asks(self, shard: Shard, dtype: torch.dtype) -> int:
        return 2

    def _scale(self, x: Tensor, shard: Shard) -> Tensor:
        unit, length = euclidean(x, shard)
        return unit * length  # at least |x_j|, also after rounding, because ‖x/u‖₂ ≥ 1: no level exceeds s

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        level = shares.abs() * self.levels
        low = level.floor()
        up = uniform("qsgd", key, shares, shard) < level - low
        return shares.sign() * (low + up)
