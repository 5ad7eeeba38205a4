"""Unbiased rounding to equally spaced levels or powers of two, with one scale or one per group."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .scaled_codes import GroupCodes, ScaledCodes, powers_of_two
from .shard import Shard, divisor, scaled_norm, uniform


def _round_at_random(shares: Tensor, levels: int, drawn: Tensor) -> Tensor:
    """Return ±⌊ℓ⌋ or ±(⌊ℓ⌋ + 1) at random, with mean ±ℓ = levels·share."""
    level = shares.abs() * levels
    low = level.floor()
    return shares.sign() * (low + (drawn < level - low))


class Drawn(ScaledCodes):
    """Codes of `levels` above zero, ⌈log₂(2·levels + 1)⌉ bits each, drawn at random."""

    levels: int

    unbiased = True
    grain = None  # draws cover the whole vector

    @property
    def top(self) -> int:
        return self.levels

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from the levels
        return (2 * self.levels).bit_length()


@dataclass(frozen=True)
class Qsgd(Drawn):
    """C(x)_j = ‖x‖₂ sgn(x_j) ξ_j/s with ξ_j = ⌊ℓ_j⌋ + Bernoulli(ℓ_j − ⌊ℓ_j⌋), ℓ_j = s|x_j|/‖x‖₂, s = `levels`.

    ⌈log₂(2s + 1)⌉·d + 32 bits: 4d + 32 for s = 7. Payload: packed codes and ‖x‖₂. 1 ≤ s ≤ 32767.
    E C(x) = x and E‖C(x) − x‖² ≤ min(d/s², √d/s)·‖x‖². A constant vector with s ≤ √d has error (√d/s − 1)‖x‖²: no
    contraction for large d, so error feedback and Markov sequences reject it. Trials of one batch share the draw.

    Source: QSGD (Alistarh et al. 2017), without its Elias coding: codes have a fixed width. GRACE's code has s = 127
    in one byte, above that two bytes a coordinate, and returns NaN for the zero vector, which is zero here. Its
    distributed variant takes a norm per 128 coordinates; here the vector has one norm.
    """

    levels: int = 7  # s; 7 makes 4 bits a coordinate

    contractive = False

    def __post_init__(self) -> None:
        if self.levels not in range(1, 2**15):
            raise ValueError(f"levels={self.levels}: qsgd takes 1 to {2**15 - 1} levels, so that codes fit 16 bits")

    def omega(self, d: int) -> float:
        return min(d / self.levels**2, d**0.5 / self.levels)

    def _scale(self, x: Tensor, shard: Shard) -> Tensor:
        unit, length = scaled_norm(x, shard)
        return unit * length  # at least |x_j|, also after rounding, because ‖x/u‖₂ ≥ 1: no level exceeds s

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        return _round_at_random(shares, self.levels, uniform("qsgd", key, shares, shard))


@dataclass(frozen=True)
class Dither(Drawn, GroupCodes):  # pyright: ignore[reportIncompatibleVariableOverride]: `width` follows from levels
    """Rounds every coordinate up or down at random, so that E C(x) = x; contractive with π = 1 − ω where ω < 1.

    Trials of one batch share the draw.
    """

    levels: int = 7  # s, levels above zero; 7 makes 4 bits a coordinate

    most: ClassVar[int]
    """Levels above zero at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.levels <= self.most:
            raise ValueError(f"levels={self.levels}: {type(self).__name__} takes 1 to {self.most} levels")

    @property
    def contractive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from options
        return self.omega(self.block) < 1

    def pi(self, d: int) -> float:
        return 1 - self.omega(d) if self.contractive else super().pi(d)


@dataclass(frozen=True)
class LinfDither(Dither):
    """C(x)_j = ‖x_b‖∞ sgn(x_j) ξ_j/s, ξ_j = ⌊ℓ_j⌋ + Bernoulli(ℓ_j − ⌊ℓ_j⌋), ℓ_j = s|x_j|/‖x_b‖∞, s = `levels`.

    ⌈log₂(2s + 1)⌉·d + 32⌈d/B⌉ bits in groups b of B neighbours. ω = (√(1 + (B − 1)/s²) − 1)/2, attained by a group
    with one coordinate at its maximum. s = 1 is TernGrad without its clipping, which makes TernGrad biased: 2 bits a
    coordinate; its paper counts log₂3.

    Source: TernGrad (Wen et al. 2017), and DIANA's quantization for p = ∞ (Mishchenko et al. 2019).
    """

    most = 2**15 - 1

    def omega(self, d: int) -> float:
        return ((1 + (min(self.block, d) - 1) / self.levels**2) ** 0.5 - 1) / 2

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        return _round_at_random(shares, self.levels, uniform("linf_dither", key, shares, shard))


@dataclass(frozen=True)
class Nuqsgd(Dither):
    """C(x)_j = ‖x_b‖₂ sgn(x_j) times one of the two of {0, 2^{1−s}, …, 1/2, 1} next to |x_j|/‖x_b‖₂, s = `levels`.

    ⌈log₂(2s + 1)⌉·d + 32⌈d/B⌉ bits in groups b of B neighbours: 4 bits a coordinate for s = 7.
    ω = 1/8 + z·min{1, z}, z = √B·2^{1−s}, natural dithering's for p = 2.

    Source: NUQSGD (JMLR, 2021). The paper has a level at 0. Its authors' code has groups of 1024 and no such level:
    small coordinates jump between ±2^{1−s}. The paper's tighter variance bound was not checked.
    """

    block: int = 1024  # B, neighbours that share a scale

    most = 127

    def omega(self, d: int) -> float:
        z = min(self.block, d) ** 0.5 * 2.0 ** (1 - self.levels)
        return 1 / 8 + z * min(1, z)

    def _group_scales(self, groups: Tensor) -> Tensor:
        unit = divisor(super()._group_scales(groups))  # squares of huge and tiny numbers are outside a float's range
        return unit * torch.linalg.vector_norm(groups / unit.unsqueeze(-1), dim=-1)

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        size, least = shares.abs(), 2.0 ** (1 - self.levels)
        fraction, exponent = torch.frexp(size)  # size = fraction · 2^exponent, 1/2 ≤ fraction < 1
        below = size < least
        chance = torch.where(below, size / least, 2 * fraction - 1)
        low = torch.where(below, 0, exponent - 1 + self.top)  # 2⁰ is level top, 2^{1−s} level 1
        level = (low + (uniform("nuqsgd", key, shares, shard) < chance)).clamp(0, self.top)  # of NaN too
        return torch.where(shares < 0, -level, level)

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        return powers_of_two(levels, self.top, dtype)
