"""One bit a coordinate and one scale."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from ..utils.words import check_words
from .base import Shardable
from .packing import pack_signs, packed_shard, signed
from .shard import Shard, euclidean, whole


class Signs(NamedTuple):
    """The payload of scaled signs."""

    bits: Tensor  # uint8 [..., ⌈d/8⌉], 1 where x ≥ 0
    scale: Tensor  # [..., 1], in the dtype of x


@dataclass(frozen=True)
class ScaledSign(Shardable):
    """C(x) = s·sgn±(x) with s = ‖x‖₁/d (`norm: l1`) or s = ‖x‖₂/√d (`norm: l2`, 1-bit Adam's): d + 32 bits.

    sgn±(0) = +1, because one bit has no third value; the CD-Adam authors' code sends 0 there and counts one bit.
    With l1, ‖C(x) − x‖² = ‖x‖² − ‖x‖₁²/d, so π = ‖x‖₁²/(d‖x‖²) ≥ 1/d.
    With l2, ‖C(x) − x‖² = 2‖x‖²(1 − ‖x‖₁/(√d‖x‖)), which exceeds ‖x‖² when ‖x‖₁ < √d‖x‖/2: sparse vectors are
    not contracted and Assumption 4.1 does not hold, whatever 1-bit Adam's analysis assumes.

    Source: CD-Adam, Algorithm 1 and footnote 3; 1-bit Adam (Tang et al. 2021) for l2.
    """

    norm: Literal["l1", "l2"] = "l1"  # l1 (CD-Adam) | l2 (1-bit Adam)

    def __post_init__(self) -> None:
        check_words(type(self), vars(self))

    @property
    def contractive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return self.norm == "l1"

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Signs:
        return Signs(pack_signs(x), self._scale(x, shard))

    def asks(self, shard: Shard, dtype: torch.dtype) -> int:
        return 1 if self.norm == "l1" else 2

    def cut(self, payload: Signs, shard: Shard) -> Signs:
        return Signs(packed_shard(payload.bits, 1, shard), payload.scale)

    def decode(self, payload: Signs, d: int) -> Tensor:
        return signed(payload.bits, d, payload.scale)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        # Many times faster on a CPU than a choice between s and −s; −0 + 0 is +0.
        return torch.copysign(self._scale(x, whole(x.shape[-1])), x + 0)

    def pi(self, d: int) -> float:
        return 1 / d if self.norm == "l1" else super().pi(d)

    def bits(self, d: int) -> int:
        return d + 32

    def _scale(self, x: Tensor, shard: Shard) -> Tensor:
        if self.norm == "l1":
            return shard.by_piece(x, lambda piece: piece.abs().sum(-1)).sum(-1, keepdim=True) / shard.d
        unit, length = euclidean(x, shard)
        return unit * (length / shard.d**0.5)
