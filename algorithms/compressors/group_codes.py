"""Quantizers with a scale for every group of neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..utils.seeding import MessageKey
from .packing import unpack_codes
from .scaled_codes import Codes, ScaledCodes
from .shard import Shard, divisor, whole


@dataclass(frozen=True)
class GroupCodes(ScaledCodes):
    """`ScaledCodes` of groups of `block` consecutive coordinates, the last perhaps shorter.

    `width` bits a coordinate and a float a group: width·d + 32⌈d/block⌉ bits.
    """

    block: int = 64  # B, neighbours that share a scale

    def __post_init__(self) -> None:
        if self.block < 1:
            raise ValueError(f"block={self.block}: a group has at least one coordinate")

    def decode(self, payload: Codes, d: int) -> Tensor:
        codes, scale = payload
        return self._each(scale, d) * self._shares(
            unpack_codes(codes, self.width, d).to(torch.int32) - self.top, scale.dtype
        )

    def asks(self, shard: Shard, dtype: torch.dtype) -> int:
        return 0

    def cut(self, payload: Codes, shard: Shard) -> Codes:
        begin, end = shard.begin // self.block, -(-shard.end // self.block)
        return Codes(super().cut(payload, shard).codes, payload.scale[..., begin:end])

    def places(self, d: int) -> Sequence[int]:
        step = lcm(self.block, 8)
        return range(step, d, step)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        levels, scale = self._quantize(x, whole(x.shape[-1]), key)
        return self._each(scale, x.shape[-1]) * self._shares(levels, x.dtype)

    def bits(self, d: int) -> int:
        return self.width * d + 32 * -(-d // self.block)

    def _quantize(self, x: Tensor, shard: Shard, key: MessageKey | None) -> tuple[Tensor, Tensor]:
        scale = self._of_groups(pad(x, (0, -x.shape[-1] % self.block)).unflatten(-1, (-1, self.block)))
        shares = x / self._each(divisor(scale), x.shape[-1])
        return self._levels(shares, shard, key) + 0, scale  # + 0 because −0 has no code

    def _of_groups(self, groups: Tensor) -> Tensor:
        """The scales [..., G] of groups [..., G, block], filled up with zeros: ‖·‖∞ unless said otherwise."""
        return groups.abs().amax(-1)

    def _each(self, scale: Tensor, d: int) -> Tensor:
        """Every coordinate's scale [..., d]."""
        return scale.repeat_interleave(self.block, -1)[..., :d]
