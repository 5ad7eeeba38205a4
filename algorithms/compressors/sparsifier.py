"""What top_k and random_k share: how many of the coordinates are sent."""

from dataclasses import dataclass
from typing import ClassVar

from ..utils.rounding import floored_share
from ..utils.words import check_words
from .base import Shardable

RATIO = 0.016
"""The CD-Adam paper's (section 7.2): about one bit a coordinate."""


@dataclass(frozen=True)
class Sparsifier(Shardable):
    """Sends k of d coordinates: `k` itself, or max(1, ⌊ratio·d⌋) where `ratio` is given or neither is.

    Unscaled it is contractive with π = k/d.
    """

    name: ClassVar[str]

    varies = True  # how many of the k lie in a shard

    ratio: float | None = None  # share of the coordinates that are sent, k = max(1, ⌊ratio·d⌋); null: 0.016
    k: int | None = None  # a number of coordinates instead

    def __post_init__(self) -> None:
        check_words(type(self), vars(self))
        if self.k is not None and self.ratio is not None:
            raise ValueError(
                f"k={self.k}, ratio={self.ratio}: {self.name} takes one of the two, not both; set the other to null"
            )
        if self.k is not None and self.k < 1:
            raise ValueError(f"k={self.k}: {self.name} sends between 1 and d coordinates")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise ValueError(f"ratio={self.ratio}: {self.name} sends a share of the coordinates in (0, 1]")

    def count(self, d: int) -> int:
        """k of d coordinates."""
        return max(1, floored_share(RATIO if self.ratio is None else self.ratio, d)) if self.k is None else self.k

    def pi(self, d: int) -> float:
        return self.count(d) / d

    def check(self, d: int) -> None:
        if self.count(d) > d:
            raise ValueError(f"k={self.k}: {self.name} sends between 1 and d = {d} coordinates")
