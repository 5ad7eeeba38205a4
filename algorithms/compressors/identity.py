"""No compression."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Shardable, Vector
from .shard import Shard


@dataclass(frozen=True)
class Identity(Shardable):
    """C(x) = x: d floats, 32d bits."""

    unbiased = True

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Vector:
        return Vector(x)

    def cut(self, payload: Vector, shard: Shard) -> Vector:
        return Vector(payload.values[..., shard.begin : shard.end])

    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values

    def sent(self, payload: Vector, d: int) -> Tensor:
        return torch.ones_like(payload.values, dtype=torch.bool)

    def pi(self, d: int) -> float:
        return 1.0

    def omega(self, d: int) -> float:
        return 0.0

    def bits(self, d: int) -> int:
        return 32 * d
