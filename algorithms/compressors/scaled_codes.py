"""What log_quantize, uniform_quantize and qsgd share: one scale, and an integer for every coordinate."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import Key
from .base import Divisible
from .norms import divisor, largest
from .packing import pack_codes, packed_span, unpack_codes
from .shard import Span, whole


class Codes(NamedTuple):
    """The payload of a scaled quantizer."""

    codes: Tensor  # uint8 [..., ⌈width·d/8⌉], level + top of every coordinate
    scale: Tensor  # [..., 1], in the dtype of x


class ScaledCodes(Divisible):
    """C(x) = scale · share(level) with a level in {−top, …, top} for every coordinate, share(±top) = ±1.

    `width` bits a coordinate and one float: width·d + 32 bits. The zero vector has scale 0 and stays zero.
    """

    width: int
    """Bits of one code: ⌈log₂(2·top + 1)⌉."""

    @property
    def top(self) -> int:
        """The largest level; as many as `width` bits hold unless said otherwise, and one code to spare."""
        return 2 ** (self.width - 1) - 1

    def encode_span(self, x: Tensor, span: Span, key: Key | None = None) -> Codes:
        levels, scale = self._quantize(x, span, key)
        return Codes(pack_codes((levels + self.top).to(torch.int32), self.width), scale)

    def decode(self, payload: Codes, d: int) -> Tensor:
        codes, scale = payload
        levels = unpack_codes(codes, self.width, d).to(torch.int32) - self.top
        return scale * self._shares(levels, scale.dtype)

    def cut(self, payload: Codes, span: Span) -> Codes:
        return Codes(packed_span(payload.codes, self.width, span), payload.scale)

    def __call__(self, x: Tensor, key: Key | None = None) -> Tensor:
        levels, scale = self._quantize(x, whole(x.shape[-1]), key)
        return scale * self._shares(levels, x.dtype)

    def bits(self, d: int) -> int:
        return self.width * d + 32

    def _quantize(self, x: Tensor, span: Span, key: Key | None) -> tuple[Tensor, Tensor]:
        scale = self._scale(x, span)
        return self._levels(x / divisor(scale), span, key) + 0, scale  # + 0 because −0 has no code

    def _scale(self, x: Tensor, span: Span) -> Tensor:
        return largest(x, span)

    @abstractmethod
    def _levels(self, shares: Tensor, span: Span, key: Key | None) -> Tensor:
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
