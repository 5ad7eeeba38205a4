"""Top k: the k largest coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..utils.rounding import floored_share
from ..utils.seeding import MessageKey
from ..utils.words import check_words
from . import elias_fano
from .base import Shardable
from .flags import gather_ragged, indices_of, ragged_indices, running_count
from .packing import pack_codes, unpack_codes
from .shard import Shard, whole_shard

MANY = 2**16
"""From this length on, a sample finds the largest numbers faster on a CPU."""

_SAMPLE = 2**15


RATIO = 0.016  # the CD-Adam paper's (section 7.2): about one bit a coordinate


@dataclass(frozen=True)
class Sparsifier(Shardable):
    """Sends k of d coordinates: the option `k`, or max(1, ⌊ratio·d⌋).

    Unscaled it is contractive with π = k/d.
    """

    name: ClassVar[str]

    varies = True  # the number of sent coordinates in a shard

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
        """Return k for d coordinates."""
        return max(1, floored_share(RATIO if self.ratio is None else self.ratio, d)) if self.k is None else self.k

    def pi(self, d: int) -> float:
        return self.count(d) / d

    def check(self, d: int) -> None:
        if self.count(d) > d:
            raise ValueError(f"k={self.k}: {self.name} sends between 1 and d = {d} coordinates")


class Sparse(NamedTuple):
    values: Tensor  # [..., k], in the dtype of x
    indices: Tensor  # int32 [..., k], ascending, or packed, uint8; a shard counts from its begin


@dataclass(frozen=True)
class TopK(Sparsifier):
    """C(x) keeps the k largest |x_j| and drops the rest: k floats and k int32 indices, 64k bits.

    32 bits an index is a convention. `index_bits: packed` sends and counts ⌈log₂ d⌉ (1 for d = 1), k(32 + ⌈log₂ d⌉).
    `elias_fano` sends ascending indices in 32k + k(l + 1) + ⌊(d−1)/2^l⌋ bits, l = max(0, ⌊log₂(d/k)⌋): about 8 an
    index at k = 0.016d. A sharded server cannot cut these.
    Of equal magnitudes the lower index is kept, and NaN counts as ∞. π = k/d. Shards find the k-th largest magnitude
    by counting the values of each byte of a float over all shards.
    Source: Assumption 4.1's canonical example.
    """

    name = "top_k"

    index_bits: Literal["packed", "elias_fano", 32] = 32  # of an index; packed: ⌈log₂ d⌉; elias_fano: log₂(d/k) + 2

    def check(self, d: int) -> None:
        super().check(d)
        if d > 2**31:
            raise ValueError(f"d = {d}: {self.name} takes at most 2^31 coordinates; try partition=layer")

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Sparse:
        if shard.is_whole and _is_long(x):
            indices = largest_indices(_magnitude(x), self.count(shard.d))
            return Sparse(x.gather(-1, indices), self._pack(indices, shard.d))
        keep = self._keep(x, shard)
        indices = indices_of(keep, self.count(shard.d)) if shard.is_whole else ragged_indices(keep)
        return Sparse(gather_ragged(x, keep, indices), self._pack(indices, shard.d))

    def cut(self, payload: Sparse, shard: Shard) -> Sparse:
        indices = self._unpack(payload, shard.d)
        here = (indices >= shard.begin) & (indices < shard.end)
        places = ragged_indices(here)
        indices = gather_ragged(indices - shard.begin, here, places)
        return Sparse(gather_ragged(payload.values, here, places), self._pack(indices, shard.d))

    def decode(self, payload: Sparse, d: int) -> Tensor:
        return self.decode_shard(payload, whole_shard(d))

    def decode_shard(self, payload: Sparse, shard: Shard) -> Tensor:
        values = payload.values
        return values.new_zeros(*values.shape[:-1], shard.size).scatter_(-1, self._unpack(payload, shard.d), values)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        if _is_long(x):
            return self.decode(self.encode_shard(x, whole_shard(x.shape[-1])), x.shape[-1])
        return torch.where(self._keep(x, whole_shard(x.shape[-1])), x, 0)

    def bits(self, d: int) -> int:
        k = self.count(d)
        if self.index_bits == "elias_fano":
            return 32 * k + elias_fano.size(k, d)
        return k * (32 + (32 if self.index_bits == 32 else _width(d)))

    def cut_points(self, d: int) -> Sequence[int]:
        return () if self.index_bits == "elias_fano" else super().cut_points(d)

    def _pack(self, indices: Tensor, d: int) -> Tensor:
        indices = indices.to(torch.int32)
        if self.index_bits == "elias_fano":
            return elias_fano.pack_ascending(indices, d)
        return indices if self.index_bits == 32 else pack_codes(indices, _width(d))

    def _unpack(self, payload: Sparse, d: int) -> Tensor:
        values, indices = payload
        if self.index_bits == "elias_fano":
            return elias_fano.unpack_ascending(indices, values.shape[-1], d)
        return (indices if self.index_bits == 32 else unpack_codes(indices, _width(d), values.shape[-1])).long()

    def _keep(self, x: Tensor, shard: Shard) -> Tensor:
        """Return which coordinates are sent: bool [..., size], with exactly k true in every whole vector."""
        magnitude = _magnitude(x)
        threshold, room = _threshold(magnitude, shard, self.count(shard.d))
        ties = magnitude == threshold
        return (magnitude > threshold) | (ties & (running_count(ties) <= room))


def _width(d: int) -> int:
    return max(1, (d - 1).bit_length())


def _magnitude(x: Tensor) -> Tensor:
    return x.abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)  # NaN equals no threshold


def _is_long(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.shape[-1] >= MANY


def _threshold(magnitude: Tensor, shard: Shard, k: int) -> tuple[Tensor, Tensor]:
    """Return the k-th largest magnitude of the whole vector [..., 1], and how many equal ones our shard sends: int32
    [..., 1], below 1 for none."""
    if shard.is_whole:
        threshold = _largest(magnitude, k).amin(-1, keepdim=True)
        return threshold, k - (magnitude > threshold).sum(-1, keepdim=True, dtype=torch.int32)
    candidates = _largest(magnitude, min(k, shard.size))
    pattern = candidates.view(_WHOLE_NUMBERS[magnitude.dtype])  # ordered like the numbers: none is negative
    found = pattern.new_zeros(*pattern.shape[:-1], 1)
    left = pattern.new_full(found.shape, k, dtype=torch.int32)  # the place among candidates that begin with `found`
    # How many such candidates earlier shards have. They come first, and may take all that is left.
    before = torch.zeros_like(left)
    alike = torch.ones_like(pattern, dtype=torch.bool)
    for shift in reversed(range(0, 8 * magnitude.element_size(), 8)):
        byte = (pattern >> shift) & 255
        counts = pattern.new_zeros(*pattern.shape[:-1], 256, dtype=torch.int32)
        counts.scatter_add_(-1, byte.long(), alike.to(torch.int32))
        all_counts = torch.stack(shard.all_gather(counts, [256] * (len(shard.cuts) - 1)))
        numbers = all_counts.sum(0, dtype=torch.int32)
        from_here_on = numbers.flip(-1).cumsum(-1, dtype=torch.int32).flip(-1)
        chosen = (from_here_on >= left).sum(-1, keepdim=True).sub_(1).clamp_(min=0)
        left = left - (from_here_on - numbers).gather(-1, chosen)
        before = all_counts[: shard.number].sum(0, dtype=torch.int32).gather(-1, chosen)
        found |= chosen.to(found.dtype) << shift
        alike &= byte == chosen
    return found.view(magnitude.dtype), left - before


_WHOLE_NUMBERS = {torch.float32: torch.int32, torch.float64: torch.int64}


def _largest(magnitude: Tensor, k: int) -> Tensor:
    if k and _is_long(magnitude):
        return magnitude.gather(-1, largest_indices(magnitude, k))
    return magnitude.topk(k, sorted=False).values


def largest_indices(size: Tensor, k: int) -> Tensor:
    """Return the ascending indices int64 [..., k] of the k largest sizes [..., d], on the CPU. Ties: the lower index.

    A sample gives a bound that slightly more than k sizes exceed, and only these are compared. If fewer than k exceed
    it, all are compared.
    """
    rows = size.reshape(-1, size.shape[-1]).numpy()
    return torch.from_numpy(np.stack([_largest_of(row, k) for row in rows])).view(*size.shape[:-1], k)


def _largest_of(row: np.ndarray, k: int) -> np.ndarray:
    sample = row[:: max(len(row) // _SAMPLE, 1)]
    expected = k / len(row) * len(sample)
    rank = int(expected + 4 * expected**0.5) + 2  # four standard deviations beyond the expected rank of the k-th
    places = np.arange(len(row))
    if rank < len(sample):
        above = np.flatnonzero(row >= np.partition(sample, -rank)[-rank])
        places = above if len(above) >= k else places
    among = row[places]
    threshold = np.partition(among, -k)[-k]
    kept = among > threshold
    kept[np.flatnonzero(among == threshold)[: k - np.count_nonzero(kept)]] = True
    return places[kept]
