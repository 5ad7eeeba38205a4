"""Every coordinate as a float of 16 or 8 bits: what uncompressed trainings send."""

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


def dithered(x: Tensor, kind: torch.dtype, drawn: Tensor) -> Tensor:
    """Of the two numbers of a float type next to each x one at random, so that the mean is x: float64."""
    info, x = torch.finfo(kind), x.double()
    _, exponent = torch.frexp(x)  # |x| = fraction · 2^exponent, 1/2 ≤ fraction < 1
    unit = torch.ldexp(torch.ones_like(x), exponent - 1).clamp_(min=info.smallest_normal) * info.eps
    low = (x / unit).floor()
    return (low + (drawn < x / unit - low)) * unit


class Halves(NamedTuple):
    values: Tensor  # [..., d], of the 16-bit type
    kind: Tensor  # [..., 0], no bytes: in the dtype of x, which the values do not tell


@dataclass(frozen=True)
class Cast(Floats):
    """C(x)_j is x_j as a 16-bit float, to the nearest, half to even, or with `stochastic` up or down at random.

    16d bits. A finite x_j beyond the largest number becomes that number; torch's casts and hooks send ∞. What is not
    finite becomes NaN. Without `stochastic` a float64 is rounded to float32 first, as torch casts it. Trials of one
    batch share the draw.
    """

    stochastic: bool = False  # true: up or down at random, so that E C(x) = x

    kind: ClassVar[torch.dtype]

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Halves:
        most = torch.finfo(self.kind).max
        values = x.clamp(-most, most).add_(x, alpha=0)  # 0 · ∞ is NaN
        if self.stochastic:
            values = dithered(values, self.kind, uniform(type(self).__name__.lower(), key, x, shard))
        return Halves(values.to(self.kind), x[..., :0])

    def cut(self, payload: Halves, shard: Shard) -> Halves:
        return Halves(payload.values[..., shard.begin : shard.end], payload.kind)

    def decode(self, payload: Halves, d: int) -> Tensor:
        return payload.values.to(payload.kind.dtype)

    def bits(self, d: int) -> int:
        return 16 * d


@dataclass(frozen=True)
class Bf16(Cast):
    """C(x)_j is x_j as a bfloat16, float32's exponent and 8 bits of precision: 16d bits.

    Neighbours around x are at most 2⁻⁷|x| apart. The nearest is off by half of that at most, and the variance of a
    random choice is at most a quarter of its square: 1 − π = ω = 2⁻¹⁶. Numbers beyond 3.39·10³⁸ become that, and
    those below 2⁻¹²⁶ lose precision, down to 0. The constants leave both ends aside, as natural's do.

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
    """C(x)_j is x_j as an IEEE half, 5 bits of exponent and 11 of precision: 16d bits.

    ‖C(x) − x‖ ≤ ‖x‖ without `stochastic`, and from 2⁻¹⁴ to 65504 every error is at most 2⁻¹¹|x_j|. But |x_j| > 65504
    becomes 65504, and |x_j| ≤ 2⁻²⁵ becomes 0, so that π = 0 and Assumption 4.1, which is about all x, does not hold.
    With `stochastic` the mean is x_j up to 65504, and no share of ‖x‖² bounds the variance of what lies below 2⁻²⁵.

    Source: IEEE 754's binary16, and torch's fp16_compress_hook, which sends ∞ from 65520 on.
    """

    contractive = False

    kind = torch.float16


_FORMATS = {"e4m3": (torch.float8_e4m3fn, 126), "e5m2": (torch.float8_e5m2, 123)}  # with the code of the largest


@dataclass(frozen=True)
class Fp8(GroupCodes, Floats):  # pyright: ignore[reportIncompatibleVariableOverride]: `grain` follows from an option
    """C(x)_j = ‖x_b‖∞/M times M·x_j/‖x_b‖∞ as an 8-bit float, in groups b of B neighbours: 8d + 32⌈d/B⌉ bits.

    `e4m3` has 4 bits of exponent, 4 of precision and M = 448, its largest number; `e5m2` has 5, 3 and M = 57344. The
    nearest, half to even, or with `stochastic` up or down at random. The scale lets nothing overflow.
    With p bits of precision and 2^e the smallest normal number, an error is at most 2^−p|x_j| above 2^e‖x_b‖∞/M, and
    2^{e−p}‖x_b‖∞/M below. So 1 − π = ω = 4^−p + (B − 1)·4^{e−p}/M²: 0.0039 and 0.0156 for B = 64.

    Source: Micikevicius et al., FP8 Formats for Deep Learning, 2022 (arXiv 2209.05433). There a scale is of a tensor.
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
        return 1 - self._loss(d)

    def omega(self, d: int) -> float:
        return self._loss(d) if self.stochastic else super().omega(d)

    def _loss(self, d: int) -> float:
        info = torch.finfo(self.kind)
        relative, absolute = info.eps / 2, info.eps / 2 * info.smallest_normal / info.max
        return relative**2 + (min(self.block, d) - 1) * absolute**2

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        scaled = shares * torch.finfo(self.kind).max
        if self.stochastic:
            scaled = dithered(scaled, self.kind, uniform("fp8", key, shares, shard))
        codes = scaled.to(self.kind).view(torch.uint8).to(torch.int32)  # a sign, then magnitudes in order
        return torch.where(codes < 128, codes, 128 - codes).clamp_(-self.top, self.top)  # of NaN too

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        return table(_values(self.kind, self.top), dtype, levels.device)[levels + self.top]


@cache
def _values(kind: torch.dtype, top: int) -> tuple[float, ...]:
    """What the levels −top to top stand for, in units of the largest."""
    above = torch.arange(top + 1, dtype=torch.uint8).view(kind).double()
    above = (above / above[-1]).tolist()
    return (*(-value for value in reversed(above[1:])), *above)
