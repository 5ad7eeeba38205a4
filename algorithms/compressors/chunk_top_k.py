"""The k largest coordinates of every chunk, as floats or in a few bits each."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..utils.seeding import MessageKey
from .base import Shardable
from .bin_means import BinMeans, Bins
from .packing import pack_codes, packed_shard, unpack_codes
from .shard import Shard, whole_shard


class Chosen(NamedTuple):
    values: Tensor  # [..., K], in the dtype of x, the largest of a chunk first
    indices: Tensor  # uint8 [..., ⌈K⌈log₂ s⌉/8⌉], packed places within the chunk


@dataclass(frozen=True)
class ChunkTopK(Shardable):
    """C(x) keeps the k largest |x_j| of every chunk of s consecutive coordinates: k(32 + ⌈log₂ s⌉) bits a chunk.

    The last chunk may be shorter; with fewer than k coordinates it sends all. Of equal magnitudes the lower index is
    kept. π = k/s. One chunk of all d coordinates is top-k with packed indices. 1 ≤ k ≤ s, and s = `chunk` is 2 to
    65,536.

    Source: DeMo's and SparseLoCo's codes, with squares of matrices as chunks; here chunks are of the flat vector.
    """

    k: int = 32  # coordinates that a chunk sends
    chunk: int = 4096  # s, coordinates of a chunk

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.chunk <= 2**16 or self.chunk == 1:
            raise ValueError(f"k={self.k}, chunk={self.chunk}: chunk_top_k takes 1 ≤ k ≤ chunk, 2 ≤ chunk ≤ {2**16}")

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Chosen:
        missing = -x.shape[-1] % self.chunk
        size = pad(x.abs(), (0, missing), value=-1).unflatten(-1, (-1, self.chunk))
        within = size.sort(stable=True, dim=-1, descending=True).indices[..., : self.k]
        count = self.count(x.shape[-1])
        begins = torch.arange(within.shape[-2], device=x.device).unsqueeze(-1) * self.chunk
        places = (within + begins).flatten(-2)[..., :count]
        codes = within.flatten(-2)[..., :count]
        return Chosen(x.gather(-1, places), pack_codes(codes, self._width))

    def decode(self, payload: Chosen, d: int) -> Tensor:
        values, indices = payload
        codes = unpack_codes(indices, self._width, values.shape[-1]).long()
        begins = torch.arange(codes.shape[-1], device=codes.device) // self.k * self.chunk
        return values.new_zeros(*values.shape[:-1], d).scatter_(-1, codes + begins, values)

    def sent_mask(self, payload: Any, d: int) -> Tensor:
        indices: Tensor = payload.indices
        ones = indices.new_ones(*indices.shape[:-1], self.count(d), dtype=torch.bool)
        return ChunkTopK.decode(self, Chosen(ones, indices), d)

    def cut(self, payload: Chosen, shard: Shard) -> Chosen:
        begin, count = shard.begin // self.chunk * self.k, self.count(shard.size)
        sent = Shard((0, begin, begin + count, self.count(shard.d)), 1)
        return Chosen(payload.values[..., begin : begin + count], packed_shard(payload.indices, self._width, sent))

    def cut_points(self, d: int) -> Sequence[int]:
        step = self.chunk * (8 // gcd(8, self.k))  # indices end on a whole byte there
        return range(step, d, step)

    def bits(self, d: int) -> int:
        return self.count(d) * (32 + self._width)

    def pi(self, d: int) -> float:
        return min(1.0, self.k / min(self.chunk, d))

    @property
    def _width(self) -> int:
        return (self.chunk - 1).bit_length()

    def count(self, d: int) -> int:
        """Return K, the number of values for d coordinates."""
        return d // self.chunk * self.k + min(self.k, d % self.chunk)


class ChosenBins(NamedTuple):
    values: Bins  # of K numbers
    indices: Tensor  # uint8 [..., ⌈K⌈log₂ s⌉/8⌉], packed places within the chunk


@dataclass(frozen=True)
class ChunkTopKBins(ChunkTopK):
    """C(x) keeps the k largest |x_j| of every chunk like `chunk_top_k`, and codes their values like `bin_means`.

    k(b + ⌈log₂ s⌉) bits a chunk, b = `value_bits`, and 32(2^b + 1) for all chunks together. For K values in all, π is
    the product of `chunk_top_k`'s and `bin_means`' for K coordinates. Bins of two bits take K = 1 or at least 3.
    Bins cover the whole vector, so a sharded server cannot cut it.

    Source: SparseLoCo's code (CCLoco, templar). There chunks are squares of matrices, and each tensor has its bins.
    """

    value_bits: int = 2  # b, bits of a value: 2 to 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_bits not in range(2, 9):
            raise ValueError(f"value_bits={self.value_bits}: chunk_top_k_bins takes 2 to 8 bits a value")

    def encode_shard(  # pyright: ignore[reportIncompatibleMethodOverride]: another payload
        self, x: Tensor, shard: Shard, key: MessageKey | None = None
    ) -> ChosenBins:
        values, indices = super().encode_shard(x, shard, key)
        return ChosenBins(self._bins.encode_shard(values, whole_shard(values.shape[-1])), indices)

    def decode(self, payload: Any, d: int) -> Tensor:
        values = self._bins.decode(payload.values, self.count(d))
        return super().decode(Chosen(values, payload.indices), d)

    def cut(self, payload: Any, shard: Shard) -> Any:
        return payload

    def cut_points(self, d: int) -> Sequence[int]:
        return ()

    def bits(self, d: int) -> int:
        return self._bins.bits(self.count(d)) + self.count(d) * self._width

    def pi(self, d: int) -> float:
        return super().pi(d) * self._bins.pi(self.count(d))

    def check(self, d: int) -> None:
        self._bins.check(self.count(d))

    @property
    def _bins(self) -> BinMeans:
        return BinMeans(self.value_bits)
