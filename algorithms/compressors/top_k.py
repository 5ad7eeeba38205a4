"""The k largest coordinates."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from algorithms.compressors.sparsifier import Sparsifier
from algorithms.randomness import Key


class Sparse(NamedTuple):
    """The payload of chosen coordinates."""

    values: Tensor  # [..., k], in the dtype of x
    indices: Tensor  # int32 [..., k], ascending


@dataclass(frozen=True)
class TopK(Sparsifier):
    """C(x) keeps the k largest |x_j| and drops the rest: k floats and k int32 indices, 64k bits.

    Of equal magnitudes the lower index is kept, so that every device agrees. π = k/d.
    Source: Assumption 4.1's canonical example.
    """

    name = "top_k"

    def encode(self, x: Tensor, key: Key | None = None) -> Sparse:
        indices = _indices(self._keep(x), self.count(x.shape[-1]))
        return Sparse(x.gather(-1, indices), indices.to(torch.int32))

    def decode(self, payload: Sparse, d: int) -> Tensor:
        values, indices = payload
        return values.new_zeros(*values.shape[:-1], d).scatter_(-1, indices.long(), values)

    def __call__(self, x: Tensor, key: Key | None = None) -> Tensor:
        return torch.where(self._keep(x), x, 0)

    def bits(self, d: int) -> int:
        return 64 * self.count(d)

    def _keep(self, x: Tensor) -> Tensor:
        """Which coordinates are sent: bool [..., d], exactly k of them true in every vector."""
        k = self.count(x.shape[-1])
        magnitude = x.abs()
        threshold = magnitude.topk(k, sorted=False).values.amin(-1, keepdim=True)
        above = magnitude > threshold
        ties = magnitude == threshold
        room = k - above.sum(-1, keepdim=True, dtype=torch.int32)
        return above | (ties & (_counted(ties) <= room))


def _indices(flags: Tensor, k: int) -> Tensor:
    """Where the flags [..., d] are set, k of them in every row: int64 [..., k], ascending."""
    if flags.device.type == "cpu":
        return flags.nonzero()[:, -1].view(*flags.shape[:-1], -1)
    return indices_by_search(flags, k)


def indices_by_search(flags: Tensor, k: int) -> Tensor:
    """`_indices` on any device: a GPU would be waited for to know how many `nonzero` finds."""
    count = torch.arange(1, k + 1, dtype=torch.int32, device=flags.device).expand(*flags.shape[:-1], k).contiguous()
    # Of a vector with NaN fewer are kept; an index outside would end the process.
    return torch.searchsorted(_counted(flags), count).clamp(max=flags.shape[-1] - 1)


def _counted(flags: Tensor) -> Tensor:
    """How many of the flags [..., d] are set up to each place, itself included: int32."""
    if flags.device.type == "cpu":
        return flags.cumsum(-1, dtype=torch.int32)
    return counted_by_one_scan(flags)


def counted_by_one_scan(flags: Tensor) -> Tensor:
    """`_counted` on any device: a GPU scans each row with a single block of threads, but one long row with all."""
    count = flags.flatten().cumsum(0, dtype=torch.int32).view(flags.shape)
    return count - count[..., :1] + flags[..., :1]
