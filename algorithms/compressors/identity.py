"""No compression."""

from dataclasses import dataclass

from torch import Tensor

from algorithms.compressors.base import Compressor, Vector
from algorithms.randomness import Key


@dataclass(frozen=True)
class Identity(Compressor):
    """C(x) = x: d floats, 32d bits."""

    unbiased = True

    def encode(self, x: Tensor, key: Key | None = None) -> Vector:
        return Vector(x)

    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values

    def pi(self, d: int) -> float:
        return 1.0

    def bits(self, d: int) -> int:
        return 32 * d
