"""Eight bits a coordinate, between the smallest and the largest coordinate."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Shardable
from .packing import packed_shard
from .shard import Shard, nan_unless_finite, whole_shard

_FLOOR = 1e-7  # added to the range, so that a constant vector has a step


class MinMaxCodes(NamedTuple):
    codes: Tensor  # uint8 [..., d]
    bounds: Tensor  # [..., 2], min and max in the dtype of x


@dataclass(frozen=True)
class MinMaxUint8(Shardable):
    """C(x)_j = (code_j + L)/S with code_j = rint(x_j·S) − L in 0..255: 8d + 64 bits.

    S = 255/(max − min + 10⁻⁷), L = rint(max·S) − 255; rint is half to even. The levels are multiples of 1/S, so zero
    stays zero, and every error is at most (max − min + 10⁻⁷)/510 and at most |x_j|, up to rounding.

    Contraction: ‖C(x) − x‖ ≤ ‖x‖ for all x. For ‖x‖∞ ≥ 10⁻⁷ the largest coordinate is at least 85 steps, so its error
    is at most 1/170 of itself, and π ≥ 0.9999/d. But a vector with all |x_j| < 10⁻⁷/510 ≈ 2·10⁻¹⁰ becomes zero. So
    π = 0, and Assumption 4.1, which is about all x, does not hold. Vanishing differences are then no longer sent.

    Source: Bagua's MinMaxUInt8 (Gan et al. 2021), one chunk. |max|·S may exceed the integers that the float type can
    count, as for a constant float32 vector of ones. rint(x·S) − L then leaves 0..255. Bagua's kernel overflows; here
    codes are clamped, and the error is the rounding of x. Bagua pads header and codes to 32 bytes each.
    """

    contractive = False

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> MinMaxCodes:
        codes, bounds = self._quantize(x, shard)
        return MinMaxCodes(codes.to(torch.uint8), bounds)

    def cut(self, payload: MinMaxCodes, shard: Shard) -> MinMaxCodes:
        return MinMaxCodes(packed_shard(payload.codes, 8, shard), payload.bounds)

    def decode(self, payload: MinMaxCodes, d: int) -> Tensor:
        codes, bounds = payload
        return self._values(codes.to(bounds.dtype), bounds)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        return self._values(*self._quantize(x, whole_shard(x.shape[-1])))

    def bits(self, d: int) -> int:
        return 8 * d + 64

    def _quantize(self, x: Tensor, shard: Shard) -> tuple[Tensor, Tensor]:
        bounds = nan_unless_finite(torch.cat([shard.smallest(x), shard.largest(x)], -1))
        steps, lower = self._lattice(bounds)
        return ((x * steps).round() - lower).clamp(0, 255), bounds

    def _values(self, codes: Tensor, bounds: Tensor) -> Tensor:
        steps, lower = self._lattice(bounds)
        return (codes + lower) / steps

    def _lattice(self, bounds: Tensor) -> tuple[Tensor, Tensor]:
        low, high = bounds.split(1, -1)
        finite = torch.finfo(bounds.dtype).max / 4 / bounds.abs().amax(-1, keepdim=True)  # so that no x·S overflows
        steps = torch.minimum(255 / (high - low + _FLOOR), finite)
        return steps, (high * steps).round() - 255
