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
    """Return the coordinates per piece of a vector of d, from `LEAST` to `MOST`: 33 to 64 pieces if possible.

    Sums of vectors are sums of pieces' sums. So they are equal, bit for bit, for any distribution of the pieces.
    It is a power of two, and so a multiple of 8: a byte of a message belongs to one piece.
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
        """Apply `measure` to every piece [..., c] of the whole vector: [..., P], in order. x [..., size]: our shard.

        Raises LostContact.
        """
        return self.gather_pieces(measure_pieces(x, piece(self.d), measure))

    def gather_pieces(self, mine: Tensor) -> Tensor:
        """Gather the numbers of all pieces [..., P], in order. mine: our pieces' [..., c]. Raises LostContact."""
        if self.is_whole:
            return mine
        counts = [-(-(end - begin) // piece(self.d)) for begin, end in pairwise(self.cuts)]
        return torch.cat(self.all_gather(mine, counts), -1)

    def total(self, x: Tensor) -> Tensor:
        """Return Σ_j x_j over the whole vector, [..., 1]."""
        return self.measure_pieces(x, lambda piece: piece.sum(-1)).sum(-1, keepdim=True)

    def largest(self, x: Tensor) -> Tensor:
        """Return max_j x_j over the whole vector, [..., 1]."""
        return self.measure_pieces(x, lambda piece: piece.amax(-1)).amax(-1, keepdim=True)

    def smallest(self, x: Tensor) -> Tensor:
        """Return min_j x_j over the whole vector, [..., 1]."""
        return self.measure_pieces(x, lambda piece: piece.amin(-1)).amin(-1, keepdim=True)

    def norm(self, x: Tensor) -> Tensor:
        """Return ‖x‖₂ of the whole vector, [..., 1]."""
        norms = self.measure_pieces(x, lambda piece: torch.linalg.vector_norm(piece, dim=-1))
        return norms if norms.shape[-1] == 1 else torch.linalg.vector_norm(norms, dim=-1, keepdim=True)

    def all_gather(self, mine: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Gather all shards' numbers, in order. counts: the number of each shard. Raises LostContact."""
        raise NotImplementedError(f"coordinates {self.begin} to {self.end} of {self.d}: cannot ask the other shards")


def measure_pieces(x: Tensor, size: int, measure: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply `measure` to every piece [..., c] of vectors x [..., d]: [..., P]."""
    if 0 < x.shape[-1] < size:  # short vectors take no further operations
        return measure(x).unsqueeze(-1)
    end = x.shape[-1] // size * size
    rows = measure(x[..., :end].unflatten(-1, (end // size, size)))  # all at once; equal for any number of threads
    return torch.cat([rows, measure(x[..., end:]).unsqueeze(-1)], -1) if end < x.shape[-1] else rows


def whole_shard(d: int) -> Shard:
    """Return the shard of all d coordinates."""
    return Shard((0, d), 0)


def cut_points(d: int) -> Sequence[int]:
    """Return the places where a vector of d coordinates may be cut: between pieces."""
    return range(piece(d), d, piece(d))


def divisor(scale: Tensor) -> Tensor:
    """Return the scale, or 1 if it is zero: a zero vector divided by it stays zero."""
    return torch.where(scale > 0, scale, 1)


def nan_unless_finite(scale: Tensor) -> Tensor:
    """Return the scale, or NaN if it is not finite. C(x) is then NaN for all codes, packed or not."""
    return scale + (scale - scale)


def scaled_norm(x: Tensor, shard: Shard) -> tuple[Tensor, Tensor]:
    """Return u = ‖x‖∞, or 1 for zero, and ‖x/u‖₂, both [..., 1]. Their product is ‖x‖₂.

    Squares of x itself would overflow for huge x and vanish for tiny x.
    """
    unit = divisor(shard.largest(x.abs()))
    return unit, shard.norm(x / unit)


def uniform(name: str, key: MessageKey | None, x: Tensor, shard: Shard) -> Tensor:
    """Draw uniform numbers in [0, 1) with the shape of x, float64, for the compressor `name`.

    They are drawn on the CPU, with one generator per message. They depend only on (seed, direction, worker, round):
    not on x's device, dtype or shard, nor on which workers share a process. Trials share them.
    """
    if key is None:
        raise ValueError(f"{name} draws from a key: pass one that names seed, direction, round and workers")
    drawn = key.draw(lambda generator: torch.rand(shard.d, dtype=torch.float64, generator=generator, device="cpu"))
    return drawn[..., shard.begin : shard.end].to(x.device).expand(x.shape)
