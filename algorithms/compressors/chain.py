"""Two compressors in a chain: the second compresses the values of the first."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Compressor, Payload
from .chunk_top_k import ChunkTopK, ChunkTopKBins
from .top_k import Sparsifier


class Chained(NamedTuple):
    places: Any  # the first compressor's payload without its values
    values: Payload  # the second's payload of these values


@dataclass(frozen=True)
class Chain(Compressor):
    """C(x) sends the coordinates that C₁ chooses. C₂ compresses their values v [K].

    C₁'s floats are not sent, so a message has bits(C₁) − 32K + bits(C₂ of K). C₂ may be a chain itself. The two draw
    from different keys.
    If C₁ sends unscaled values, E‖C(x) − x‖² = ‖x‖² − E‖v‖² + E‖C₂(v) − v‖² ≤ (1 − π₁π₂)‖x‖². If both are
    unbiased, so is C, with ω = (1 + ω₁)(1 + ω₂) − 1.

    Source: CocktailSGD (Wang et al., ICML 2023) chains random-k, top-k and four bits.
    """

    first: Sparsifier | ChunkTopK  # C₁: top_k, chunk_top_k or random_k
    second: Compressor  # C₂

    def __post_init__(self) -> None:
        if isinstance(self.first, ChunkTopKBins):
            raise ValueError(f"first={self.first}: sends no floats; take chunk_top_k")
        for assumption in ("contractive", "unbiased", "keeps_zero", "is_scaled"):
            both = getattr(self.first, assumption) and getattr(self.second, assumption)
            object.__setattr__(self, assumption, both)  # the class is frozen

    @property
    def enlarges(self) -> bool:
        return self.first.enlarges or self.second.enlarges

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Chained:
        payload: Any = self.first.encode(x, key)
        values = payload.values
        own = None if key is None else key._replace(direction=f"{key.direction}/values")
        return Chained(payload._replace(values=values[..., :0]), self.second.encode(values, own))

    def decode(self, payload: Chained, d: int) -> Tensor:
        values = self.second.decode(payload.values, self.first.count(d))
        return self.first.decode(payload.places._replace(values=values), d)

    def bits(self, d: int) -> int:
        count = self.first.count(d)
        return self.first.bits(d) - 32 * count + self.second.bits(count)

    def pi(self, d: int) -> float:
        return self.first.pi(d) * self.second.pi(self.first.count(d))

    def omega(self, d: int) -> float:
        return (1 + self.first.omega(d)) * (1 + self.second.omega(self.first.count(d))) - 1

    def check(self, d: int) -> None:
        self.first.check(d)
        self.second.check(self.first.count(d))
