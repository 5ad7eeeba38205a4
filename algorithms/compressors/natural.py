"""Unbiased rounding to a power of two."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Shardable
from .packing import pack, packed_shard, table, unpack
from .shard import Shard, uniform, whole_shard

_SMALLEST, _LARGEST = -126, 127  # exponents of the normal float32 numbers; codes are their exponent fields, 1 to 254
_NOT_FINITE = 255
_MAGNITUDES = (0.0, *(2.0**e for e in range(_SMALLEST, _LARGEST + 1)), float("nan"))  # by code


class Powers(NamedTuple):
    signs: Tensor  # uint8 [..., ⌈d/8⌉], 1 where x < 0
    exponents: Tensor  # uint8 [..., d], 0 for zero
    kind: Tensor  # [..., 0], no bytes: it has the dtype of x


@dataclass(frozen=True)
class Natural(Shardable):
    """C(x)_j = sgn(x_j)·2^{e+B}, e = ⌊log₂|x_j|⌋ and B Bernoulli(|x_j|/2ᵉ − 1): a sign and an exponent, 9d bits.

    E C(x) = x and E‖C(x) − x‖² ≤ ‖x‖²/8, with equality at |x_j| = 4/3·2ᵉ: unbiased and contractive, π = 7/8. The
    error of one draw is at most |x_j| a coordinate. Trials of one batch share the draw. Payload: packed signs and a
    byte of exponent a coordinate. Code 0 is 0, codes 1…254 are 2⁻¹²⁶…2¹²⁷, and 255 is NaN, for ∞ too.

    At the ends of float32's range: |x_j| < 2⁻¹²⁶ becomes 2⁻¹²⁶ with probability 2¹²⁶|x_j| and else 0. This is
    unbiased, but no multiple of x_j² bounds its variance of up to 2⁻²⁵⁴. |x_j| > 2¹²⁷ becomes 2¹²⁷, which is biased,
    and barely a contraction for a float64 far beyond it. The flags ignore both ends.

    Source: natural compression (Horváth et al. 2022). GRACE's code sends 8 bits, 7 of them exponent, for 2⁻¹⁰⁸ to
    2¹⁸, and drops smaller numbers. EF21's authors count 9 bits and do not bound the exponent.
    """

    contractive = True
    unbiased = True

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Powers:
        return Powers(pack(x < 0), self._codes(x, shard, key).to(torch.uint8), x[..., :0])

    def cut(self, payload: Powers, shard: Shard) -> Powers:
        signs, exponents, kind = payload
        return Powers(packed_shard(signs, 1, shard), packed_shard(exponents, 8, shard), kind)

    def decode(self, payload: Powers, d: int) -> Tensor:
        signs, exponents, kind = payload
        return self._values(unpack(signs, d), exponents, kind.dtype)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        return self._values(x < 0, self._codes(x, whole_shard(x.shape[-1]), key), x.dtype)

    def bits(self, d: int) -> int:
        return 9 * d

    def pi(self, d: int) -> float:
        return 7 / 8

    def omega(self, d: int) -> float:
        return 1 / 8

    def _codes(self, x: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        size = x.abs()
        fraction, exponent = torch.frexp(size)  # size = fraction · 2^exponent, 1/2 ≤ fraction < 1
        below = size < 2.0**_SMALLEST
        chance = torch.where(below, size * 2.0**-_SMALLEST, 2 * fraction - 1)
        low = torch.where(below, 0, exponent - _SMALLEST)
        codes = (low + (uniform("natural", key, x, shard) < chance)).clamp(max=len(_MAGNITUDES) - 2)
        return torch.where(x.isfinite(), codes, _NOT_FINITE)

    def _values(self, negative: Tensor, codes: Tensor, dtype: torch.dtype) -> Tensor:
        size = table(_MAGNITUDES, dtype, codes.device)[codes.to(torch.int32)]
        return torch.where(negative, -size, size)
