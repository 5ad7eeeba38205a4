"""Floats of 16 or 8 bits for every coordinate, as in uncompressed training."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from ..utils.words import check_words
from .base import Floats
from .packing import table
from .scaled_codes import GroupCodes
from .shard import Shard, uniform


def round_stochastically(x: Tensor, kind: torch.dtype, drawn: Tensor) -> Tensor:
    """Round each x at random up or down to a number of a float type, with mean x. Returns float64."""
    info, x = torch.finfo(kind), x.double()
    _, exponent = torch.frexp(x)  # |x| = fraction · 2^exponent, 1/2 ≤ fraction < 1
    unit = torch.ldexp(torch.ones_like(x), exponent - 1).clamp_(min=info.smallest_normal) * info.eps
    low = (x / unit).floor()
    return (low + (drawn < x / unit - low)) * unit


class HalfFloats(NamedTuple):
    values: Tensor  # [..., d], of the 16-bit type
    like: Tensor  # [..., 0], empty: it has the dtype of x


@dataclass(frozen=True)
class Cast(Floats):
    """C(x)_j is x_j as a 16-bit float: 16d bits.

    It is rounded to the nearest, half to even, or with `stochastic` up or down at random. A finite x_j beyond the
    largest number becomes that number, where torch's casts and hooks send ∞. ∞ and NaN become NaN. Without
    `stochastic` a float64 is first rounded to float32, as in torch's cast. Trials of one batch share the draw.
    """

    stochastic: bool = False  # true: up or down at random, so that E C(x) = x

    kind: ClassVar[torch.dtype]

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> HalfFloats:
        most = torch.finfo(self.kind).max
        values = x.clamp(-most, most).add_(x, alpha=0)  # 0 · ∞ is NaN
        if self.stochastic:
            values = round_stochastically(values, self.kind, uniform(type(self).__name__.lower(), key, x, shard))
        return HalfFloats(values.to(self.kind), x[..., :0])

    def cut(self, payload: HalfFloats, shard: Shard) -> HalfFloats:
        return HalfFloats(payload.values[..., shard.begin : shard.end], payload.like)

    def decode(self, payload: HalfFloats, d: int) -> Tensor:
        return payload.values.to(payload.like.dtype)

    def bits(self, d: int) -> int:
        return 16 * d


@dataclass(frozen=True)
class Bf16(Cast):
    """C(x)_j is x_j as a bfloat16, with float32's exponent and 8 bits of precision: 16d bits.

    The bfloat16 numbers below and above x are at most 2⁻⁷|x| apart. The nearest one is off by at most half of that,
    and the variance of a random choice is at most a quarter of its square: 1 − π = ω = 2⁻¹⁶. Numbers beyond
    3.39·10³⁸ become that number, and those below 2⁻¹²⁶ lose precision, down to 0. The constants ignore both ends, as
    natural's do.

    Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, 2019 (arXiv 1905.12322), and torch's
    bf16_compress_hook; stochastic rounding by Gupta et al. 2015 (arXiv 1502.02551).
    """

    kind = torch.bfloat16

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return self.stochastic

    def pi(self, d: int) -> float:
        return 1 - 2.0**-16

    def omega(self, d: int) -> float:
        return 2.0**-16 if self.stochastic else super().omega(d)


@dataclass(frozen=True)
class Fp16(Cast):
    """C(x)_j is x_j as an IEEE half, with 5 bits of exponent and 11 of precision: 16d bits.

    From 2⁻¹⁴ to 65504 every error is at most 2⁻¹¹|x_j|. But |x_j| > 65504 becomes 65504, and |x_j| ≤ 2⁻²⁵ becomes 0.
    So without `stochastic` only ‖C(x) − x‖ ≤ ‖x‖ holds for all x: π = 0, and Assumption 4.1 does not hold.
    With `stochastic` the mean is x_j up to 65504. No multiple of ‖x‖² bounds the variance of numbers below 2⁻²⁵.

    Source: IEEE 754's binary16, and torch's fp16_compress_hook, which sends ∞ from 65520 on.
    """

    contractive = False

    kind = torch.float16


_FORMATS = {"e4m3": (torch.float8_e4m3fn, 126), "e5m2": (torch.float8_e5m2, 123)}  # dtype, code of its largest number


@dataclass(frozen=True)
class Fp8(GroupCodes, Floats):  # pyright: ignore[reportIncompatibleVariableOverride]: `grain` follows from an option
    """C(x)_j = ‖x_b‖∞/M times M·x_j/‖x_b‖∞ as an 8-bit float, in groups b of B neighbours: 8d + 32⌈d/B⌉ bits.

    M is the largest number. `e4m3` has 4 bits of exponent, 4 of precision and M = 448; `e5m2` has 5, 3 and M = 57344.
    Numbers are rounded to the nearest, half to even, or with `stochastic` up or down at random. None overflows,
    because of the scale. With p bits of precision and the smallest normal number 2^e, an error is at most 2^−p|x_j|
    above 2^e‖x_b‖∞/M, and 2^{e−p}‖x_b‖∞/M below. So 1 − π = ω = 4^−p + (B − 1)·4^{e−p}/M², which is 0.0039 and
    0.0156 for B = 64.

    Source: Micikevicius et al., FP8 Formats for Deep Learning, 2022 (arXiv 2209.05433). There a tensor has one scale.
    """

    format: Literal["e4m3", "e5m2"] = "e4m3"  # e4m3: finer; e5m2: a wider range
    stochastic: bool = False  # true: up or down at random, so that E C(x) = x

    width = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(type(self), vars(self))

    @property
    def unbiased(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return self.stochastic

    @property
    def kind(self) -> torch.dtype:
        return _FORMATS[self.format][0]

    @property
    def top(self) -> int:
        return _FORMATS[self.format][1]

    def pi(self, d: int) -> float:
        return 1 - self._relative_error(d)

    def omega(self, d: int) -> float:
        return self._relative_error(d) if self.stochastic else super().omega(d)

    def _relative_error(self, d: int) -> float:
        info = torch.finfo(self.kind)
        relative, absolute = info.eps / 2, info.eps / 2 * info.smallest_normal / info.max
        return relative**2 + (min(self.block, d) - 1) * absolute**2

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        scaled = shares * torch.finfo(self.kind).max
        if self.stochastic:
            scaled = round_stochastically(scaled, self.kind, uniform("fp8", key, shares, shard))
        codes = scaled.to(self.kind).view(torch.uint8).to(torch.int32)  # a sign, then magnitudes in order
        return torch.where(codes < 128, codes, 128 - codes).clamp_(-self.top, self.top)  # of NaN too

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        return table(_values(self.kind, self.top), dtype, levels.device)[levels + self.top]


@cache
def _values(kind: torch.dtype, top: int) -> tuple[float, ...]:
    """The values of the levels −top to top, in units of the largest."""
    above = torch.arange(top + 1, dtype=torch.uint8).view(kind).double()
    above = (above / above[-1]).tolist()
    return (*(-value for value in reversed(above[1:])), *above)
