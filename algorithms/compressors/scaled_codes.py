"""An integer code for every coordinate, with one scale or one per group of neighbours."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import lcm
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..utils.seeding import MessageKey
from .base import Shardable
from .packing import CHUNK, pack_codes, packed_shard, table, unpack_codes
from .shard import Shard, divisor, nan_unless_finite


class Codes(NamedTuple):
    codes: Tensor  # uint8 [..., ⌈width·d/8⌉], level + top of every coordinate
    scale: Tensor  # [..., 1], in the dtype of x


class ScaledCodes(Shardable):
    """C(x) = scale · share(level) with a level in {−top, …, top} for every coordinate, share(±top) = ±1.

    `width` bits a coordinate and one float: width·d + 32 bits. The zero vector has scale 0 and stays zero. If the
    scale is not finite, C(x) is NaN.
    """

    grain = 1

    width: int
    """Bits of one code: ⌈log₂(2·top + 1)⌉."""

    @property
    def top(self) -> int:
        """The largest level. By default `width` bits hold all levels, with one code unused."""
        return 2 ** (self.width - 1) - 1

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Codes:
        levels, scale = self._quantize(x, shard, key)
        return Codes(pack_codes(levels.add_(self.top), self.width), scale)

    def decode(self, payload: Codes, d: int) -> Tensor:
        [*chunks] = self._chunks(payload.scale, d)
        if len(chunks) == 1:
            return self._apply_scale(Tensor.mul_, self._unpack(payload, d), payload.scale)
        values = payload.scale.new_empty(*payload.scale.shape[:-1], d)
        for begin, end in chunks:
            values[..., begin:end] = self.decode(self.cut(payload, Shard((0, begin, end, d), 1)), end - begin)
        return values

    def _unpack(self, payload: Codes, d: int) -> Tensor:
        """Return the values [..., d] of the codes, in units of the scale."""
        levels = unpack_codes(payload.codes, self.width, d).to(torch.int32).sub_(self.top)
        return self._shares(levels, payload.scale.dtype)

    def cut(self, payload: Codes, shard: Shard) -> Codes:
        return Codes(packed_shard(payload.codes, self.width, shard), payload.scale)

    def compress_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Tensor:
        levels, scale = self._quantize(x, shard, key)
        return self._apply_scale(Tensor.mul_, self._shares(levels, x.dtype), scale)

    def bits(self, d: int) -> int:
        return self.width * d + 32

    def _chunks(self, like: Tensor, d: int) -> Iterable[tuple[int, int]]:
        """Return begins and ends of parts that fit a CPU's cache."""
        places = self.cut_points(d) if like.device.type == "cpu" else ()
        every = max(CHUNK // places[0], 1) if places else 1
        return pairwise((0, *places[every - 1 :: every], d))

    def _quantize(self, x: Tensor, shard: Shard, key: MessageKey | None) -> tuple[Tensor, Tensor]:
        scale = nan_unless_finite(self._scale(x, shard))
        shares = self._apply_scale(torch.div, x, divisor(scale))
        return self._levels(shares, shard, key).add_(0), scale  # + 0, because −0 has no code

    def _scale(self, x: Tensor, shard: Shard) -> Tensor:
        return shard.largest(x.abs())

    def _apply_scale(self, operation: Callable[[Tensor, Tensor], Tensor], x: Tensor, scale: Tensor) -> Tensor:
        """Apply an operation to every coordinate [..., d] and its scale."""
        return operation(x, scale)

    @abstractmethod
    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        """Return the levels, integers of any dtype, of coordinates divided by the scale. May reuse their memory."""

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the values of levels, in units of the scale. May reuse their memory."""
        return levels.to(dtype).div_(self.top)


@dataclass(frozen=True)
class GroupCodes(ScaledCodes):
    """`ScaledCodes` for groups of `block` consecutive coordinates. The last group may be shorter.

    `width` bits a coordinate and a float a group: width·d + 32⌈d/block⌉ bits.
    """

    block: int = 64  # B, neighbours that share a scale

    def __post_init__(self) -> None:
        if self.block < 1:
            raise ValueError(f"block={self.block}: a group has at least one coordinate")

    def cut(self, payload: Codes, shard: Shard) -> Codes:
        begin, end = shard.begin // self.block, -(-shard.end // self.block)
        return Codes(super().cut(payload, shard).codes, payload.scale[..., begin:end])

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Codes:
        if self.unbiased:  # draws cover the whole vector
            return super().encode_shard(x, shard, key)
        parts = [super(GroupCodes, self).encode_shard(x[..., a:b], shard) for a, b in self._chunks(x, x.shape[-1])]
        return Codes(*(torch.cat(some, -1) for some in zip(*parts, strict=True)))

    @property
    def grain(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return self.block

    def cut_points(self, d: int) -> Sequence[int]:
        step = lcm(self.block, 8)
        return range(step, d, step)

    def bits(self, d: int) -> int:
        return self.width * d + 32 * -(-d // self.block)

    def _scale(self, x: Tensor, shard: Shard) -> Tensor:
        return self._group_scales(self._groups(x))

    def _group_scales(self, groups: Tensor) -> Tensor:
        """Return the scales [..., G] of zero-padded groups [..., G, block]: by default ‖·‖∞."""
        return groups.abs().amax(-1)

    def _groups(self, x: Tensor) -> Tensor:
        """Reshape x [..., d] to [..., G, block], padded with zeros."""
        missing = -x.shape[-1] % self.block
        return (pad(x, (0, missing)) if missing else x).view(*x.shape[:-1], -1, self.block)

    def _apply_scale(self, operation: Callable[[Tensor, Tensor], Tensor], x: Tensor, scale: Tensor) -> Tensor:
        values = operation(self._groups(x), scale.unsqueeze(-1)).flatten(-2)
        return values if values.shape == x.shape else values[..., : x.shape[-1]].contiguous()


def powers_of_two(levels: Tensor, top: int, dtype: torch.dtype) -> Tensor:
    """Return ±2^{|level| − top} for levels in {−top, …, top}, and 0 for level 0."""
    powers = [2.0 ** (level - top) for level in range(1, top + 1)]
    return table((*(-power for power in reversed(powers)), 0.0, *powers), dtype, levels.device)[levels + top]


def _check_bits(name: str, bits: int, most: int) -> None:
    if bits not in range(2, most + 1):
        raise ValueError(
            f"bits={bits}: {name} takes 2 to {most} bits a coordinate, for 2^(bits−1) − 1 levels on either side of "
            "zero; one bit or none leaves 0 levels"
        )


@dataclass(frozen=True, init=False)
class UniformQuantize(ScaledCodes):
    """C(x) = ‖x‖∞ times the nearest multiple of 1/(2^{b−1} − 1) in [−1, 1], half to even: b·d + 32 bits, b = `bits`.

    2^b − 1 levels, 2 ≤ b ≤ 16.
    Every error is at most ‖x‖∞/(2(2^{b−1} − 1)). Since 0 is a level, it is also at most |x_j|. The largest coordinate
    has no error: ‖C(x) − x‖² ≤ ‖x‖² − ‖x‖∞², so π ≥ 1/d.

    Source: the weight quantizer of Quantized Adam with error feedback (Chen et al. 2021), in this project's reading:
    the range follows the vector, and half to even is our rule for ties.
    """

    width: int  # b

    def __init__(
        self,
        bits: int = 8,  # b, bits a coordinate: 2 to 16
    ) -> None:
        _check_bits("uniform_quantize", bits, 16)
        object.__setattr__(self, "width", bits)  # the class is frozen, and a field `bits` would hide the method

    def pi(self, d: int) -> float:
        return 1 / d

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        return shares.mul_(self.top).round_()


@dataclass(frozen=True, init=False)
class LogQuantize(ScaledCodes):
    """C(x) = ‖x‖∞ times the nearest of {0, ±2⁰, ±2⁻¹, …, ±2⁻ᴷ}, K = 2^{b−1} − 2: b·d + 32 bits, b = `bits`.

    2^b − 1 levels. Ties go to the larger magnitude. 2 ≤ b ≤ 8: at 8 bits the smallest level is 2⁻¹²⁶, the smallest
    normal float32.
    Since 0 is a level, no error exceeds its coordinate, and the largest coordinate has none: ‖C(x) − x‖² ≤ ‖x‖² −
    ‖x‖∞², so π ≥ 1/d. The error of a coordinate of at least 2⁻ᴷ‖x‖∞ is at most a third of it.

    Source: the gradient quantizer of Quantized Adam with error feedback (Chen et al. 2021), in this project's
    reading: all powers of two that b bits can name, and our rule for ties.
    """

    width: int  # b

    def __init__(
        self,
        bits: int = 3,  # b, bits a coordinate: 2 to 8
    ) -> None:
        _check_bits("log_quantize", bits, 8)
        object.__setattr__(self, "width", bits)  # the class is frozen, and a field `bits` would hide the method

    def pi(self, d: int) -> float:
        return 1 / d

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        size = shares.abs()
        fraction, exponent = torch.frexp(size)  # size = fraction · 2^exponent, 1/2 ≤ fraction < 1
        nearest = exponent - (fraction < 0.75).to(torch.int32)  # log₂ of the nearest power of two
        level = (nearest + self.top).clamp(1, self.top)  # 2⁰ is level top, 2⁻ᴷ level 1
        level = torch.where(size < 2.0**-self.top, 0, level)  # nearer to 0 than to 2⁻ᴷ, K = top − 1
        return torch.where(shares < 0, -level, level)

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        return powers_of_two(levels, self.top, dtype)
