"""No compression."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..utils.seeding import Key
from .base import Divisible, Vector
from .shard import Span


@dataclass(frozen=True)
class Identity(Divisible):
    """C(x) = x: d floats, 32d bits."""

    unbiased = True

    def encode_span(self, x: Tensor, span: Span, key: Key | None = None) -> Vector:
        return Vector(x)

    def cut(self, payload: Vector, span: Span) -> Vector:
        return Vector(payload.values[..., span.begin : span.end])

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
