"""A shard of a vector's coordinates: its sums, norms and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ..utils.seeding import MessageKey

LEAST, MOST = 2**12, 2**18
"""Coordinates of a piece."""


def piece(d: int) -> int:
    """Coordinates of a vector of d that are added up at once: of `LEAST` to `MOST` as many as make 33 to 64 pieces.

    Sums of longer vectors are sums of pieces' sums, so that they are the same, bit for bit, whoever has which pieces.
    A power of two, and so a multiple of 8, for a byte of a message belongs to one piece.
    """
    return min(max(2 ** ((d - 1) // 64).bit_length(), LEAST), MOST)


@dataclass(frozen=True)
class Shard:
    """The coordinates cuts[number] to cuts[number + 1] of a vector. The first cut is 0, the last is d.

    The base class covers the whole vector, `whole_shard(d)`: a subclass asks the processes with the other shards.
    """

    cuts: tuple[int, ...]
    number: int

    @property
    def begin(self) -> int:
        return self.cuts[self.number]

    @property
    def end(self) -> int:
        return self.cuts[self.number + 1]

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def d(self) -> int:
        return self.cuts[-1]

    @property
    def is_whole(self) -> bool:
        return self.size == self.d

    def measure_pieces(self, x: Tensor, measure: Callable[[Tensor], Tensor]) -> Tensor:
        """What `measure` makes of every piece [..., c] of the whole vector, [..., P] in order; x [..., size] is ours.

        Raises LostContact where it takes others who are gone.
        """
        return self.gather_pieces(measure_pieces(x, piece(self.d), measure))

    def gather_pieces(self, mine: Tensor) -> Tensor:
        """Gather the numbers of all pieces [..., P], in order, from ours [..., c] and others'. Raises LostContact."""
        if self.is_whole:
            return mine
        counts = [-(-(end - begin) // piece(self.d)) for begin, end in pairwise(self.cuts)]
        return torch.cat(self.all_gather(mine, counts), -1)

    def total(self, x: Tensor) -> Tensor:
        """Σ_j x_j over the whole vector, [..., 1]."""
        return self.measure_pieces(x, lambda piece: piece.sum(-1)).sum(-1, keepdim=True)

    def largest(self, x: Tensor) -> Tensor:
        """max_j x_j over the whole vector, [..., 1]."""
        return self.measure_pieces(x, lambda piece: piece.amax(-1)).amax(-1, keepdim=True)

    def smallest(self, x: Tensor) -> Tensor:
        """min_j x_j over the whole vector, [..., 1]."""
        return self.measure_pieces(x, lambda piece: piece.amin(-1)).amin(-1, keepdim=True)

    def norm(self, x: Tensor) -> Tensor:
        """‖x‖₂ of the whole vector, [..., 1]."""
        norms = self.measure_pieces(x, lambda piece: torch.linalg.vector_norm(piece, dim=-1))
        return norms if norms.shape[-1] == 1 else torch.linalg.vector_norm(norms, dim=-1, keepdim=True)

    def all_gather(self, mine: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Our numbers [..., c] and those of all other shards, so many each, in order. Raises LostContact."""
        raise NotImplementedError(f"coordinates {self.begin} to {self.end} of {self.d}: there is nobody to ask")


def measure_pieces(x: Tensor, size: int, measure: Callable[[Tensor], Tensor]) -> Tensor:
    """`measure` of every piece [..., c] of vectors x [..., d], as [..., P]."""
    if 0 < x.shape[-1] < size:  # short vectors take no further operations
        return measure(x).unsqueeze(-1)
    end = x.shape[-1] // size * size
    rows = measure(x[..., :end].unflatten(-1, (end // size, size)))  # all at once; the same for any number of threads
    return torch.cat([rows, measure(x[..., end:]).unsqueeze(-1)], -1) if end < x.shape[-1] else rows


def whole_shard(d: int) -> Shard:
    """All d coordinates."""
    return Shard((0, d), 0)


def cut_points(d: int) -> Sequence[int]:
    """Where a vector of d coordinates may be cut: between pieces."""
    return range(piece(d), d, piece(d))


def divisor(scale: Tensor) -> Tensor:
    """The scale, or 1 where it is zero: a zero vector divided by it stays zero."""
    return torch.where(scale > 0, scale, 1)


def nan_unless_finite(scale: Tensor) -> Tensor:
    """The scale, or NaN where it is not finite, so that C(x) is NaN whatever the codes, packed or not."""
    return scale + (scale - scale)


def scaled_norm(x: Tensor, shard: Shard) -> tuple[Tensor, Tensor]:
    """(u, ‖x/u‖₂) as [..., 1] each with u = ‖x‖∞ or 1: ‖x‖₂ is their product.

    Squares of x itself would overflow for huge x and vanish for tiny x.
    """
    unit = divisor(shard.largest(x.abs()))
    return unit, shard.norm(x / unit)


def uniform(name: str, key: MessageKey | None, x: Tensor, shard: Shard) -> Tensor:
    """Uniform numbers in [0, 1) of the shape of x, float64, for the compressor `name`.

    They are drawn on the CPU, one generator a message, and depend on (seed, direction, worker, round) alone: not on
    the device, the dtype of x, its shard or which workers share a process. Trials share them.
    """
    if key is None:
        raise ValueError(f"{name} draws from a key: pass one that names seed, direction, round and workers")
    drawn = key.draw(lambda generator: torch.rand(shard.d, dtype=torch.float64, generator=generator, device="cpu"))
    return drawn[..., shard.begin : shard.end].to(x.device).expand(x.shape)
