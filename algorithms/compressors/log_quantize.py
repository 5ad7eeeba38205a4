"""The nearest power of two below the largest coordinate."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .packing import table
from .scaled_codes import ScaledCodes, check_bits
from .shard import Shard


@dataclass(frozen=True, init=False)
class LogQuantize(ScaledCodes):
    """C(x) = ‖x‖∞ times the nearest of {0, ±2⁰, ±2⁻¹, …, ±2⁻ᴷ}, K = 2^{b−1} − 2: b·d + 32 bits, b = `bits`.

    2^b − 1 levels; of two that are equally near, the larger magnitude. 2 ≤ b ≤ 8: at 8 bits the smallest level is
    2⁻¹²⁶, the smallest normal float32. Deterministic. Payload: packed b-bit codes and ‖x‖∞.
    Since 0 is a level no coordinate's error exceeds the coordinate, and the largest one has none:
    ‖C(x) − x‖² ≤ ‖x‖² − ‖x‖∞², so π ≥ 1/d. Coordinates of at least 2⁻ᴷ‖x‖∞ are off by at most a third of themselves.

    Source: the gradient quantizer of Quantized Adam with error feedback (Chen et al. 2021), in this project's
    reading: as many powers of two as b bits can name, and our rule for ties.
    """

    width: int  # b

    def __init__(
        self,
        bits: int = 3,  # b, bits a coordinate: 2 to 8
    ) -> None:
        check_bits("log_quantize", bits, 8)
        object.__setattr__(self, "width", bits)  # the class is frozen, and a field `bits` would hide the method

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        size = shares.abs()
        fraction, exponent = torch.frexp(size)  # size = fraction · 2^exponent, 1/2 ≤ fraction < 1
        nearest = exponent - (fraction < 0.75).to(torch.int32)  # log₂ of the nearest power of two
        level = (nearest + self.top).clamp(1, self.top)  # 2⁰ is level top, 2⁻ᴷ level 1
        level = torch.where(size < 2.0**-self.top, 0, level)  # nearer to 0 than to 2⁻ᴷ, K = top − 1
        return torch.where(shares < 0, -level, level)

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        powers = [2.0 ** (level - self.top) for level in range(1, self.top + 1)]
        values = (*(-power for power in reversed(powers)), 0.0, *powers)
        return table(values, dtype, levels.device)[levels + self.top]
