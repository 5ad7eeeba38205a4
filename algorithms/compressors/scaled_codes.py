"""What log_quantize, uniform_quantize and qsgd share: one scale, and an integer for every coordinate."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Shardable
from .packing import pack_codes, packed_shard, unpack_codes
from .shard import Shard, divisor, whole


class Codes(NamedTuple):
    """The payload of a scaled quantizer."""

    codes: Tensor  # uint8 [..., ⌈width·d/8⌉], level + top of every coordinate
    scale: Tensor  # [..., 1], in the dtype of x


class ScaledCodes(Shardable):
    """C(x) = scale · share(level) with a level in {−top, …, top} for every coordinate, share(±top) = ±1.

    `width` bits a coordinate and one float: width·d + 32 bits. The zero vector has scale 0 and stays zero.
    """

    width: int
    """Bits of one code: ⌈log₂(2·top + 1)⌉."""

    @property
    def top(self) -> int:
        """The largest level; as many as `width` bits hold unless said otherwise, and one code to spare."""
        return 2 ** (self.width - 1) - 1

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Codes:
        levels, scale = self._quantize(x, shard, key)
        return Codes(pack_codes((levels + self.top).to(torch.int32), self.width), scale)

    def decode(self, payload: Codes, d: int) -> Tensor:
        codes, scale = payload
        levels = unpack_codes(codes, self.width, d).to(torch.int32) - self.top
        return scale * self._shares(levels, scale.dtype)

    def asks(self, shard: Shard, dtype: torch.dtype) -> int:
        return 1

    def cut(self, payload: Codes, shard: Shard) -> Codes:
        return Codes(packed_shard(payload.codes, self.width, shard), payload.scale)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        levels, scale = self._quantize(x, whole(x.shape[-1]), key)
        return scale * self._shares(levels, x.dtype)

    def bits(self, d: int) -> int:
        return self.width * d + 32

    def _quantize(self, x: Tensor, shard: Shard, key: MessageKey | None) -> tuple[Tensor, Tensor]:
        scale = self._scale(x, shard)
        return self._levels(x / divisor(scale), shard, key) + 0, scale  # + 0 because −0 has no code

    def _scale(self, x: Tensor, shard: Shard) -> Tensor:
        return shard.largest(x.abs())

    @abstractmethod
    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        """The levels, whole numbers of any dtype, of coordinates divided by the scale."""

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        """What a level stands for, in units of the scale."""
        return levels.to(dtype) / self.top


def check_bits(name: str, bits: int, most: int) -> None:
    """Raise ValueError unless 2 ≤ bits ≤ most."""
    if bits not in range(2, most + 1):
        raise ValueError(
            f"bits={bits}: {name} takes 2 to {most} bits a coordinate, for 2^(bits−1) − 1 levels on either side of "
            "zero; one bit or none leaves 0 levels"
        )
