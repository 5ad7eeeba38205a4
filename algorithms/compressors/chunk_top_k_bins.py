"""The k largest coordinates of every chunk, in a few bits each."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ..utils.seeding import MessageKey
from .bin_means import BinMeans, Bins
from .chunk_top_k import Chosen, ChunkTopK
from .shard import Shard, whole


class ChosenBins(NamedTuple):
    """The payload of coordinates chosen by chunk, whose values are in bins."""

    values: Bins  # of K numbers
    indices: Tensor  # uint8 [..., ⌈K⌈log₂ s⌉/8⌉], packed places within the chunk


@dataclass(frozen=True)
class ChunkTopKBins(ChunkTopK):
    """C(x) keeps the k largest |x_j| of every chunk as `chunk_top_k`, whose values cross as `bin_means` makes them.

    k(b + ⌈log₂ s⌉) bits a chunk, b = `value_bits`, and 32(2^b + 1) for all of them together. Of K values in all π is
    that of the one times that of the other for K coordinates. Bins of two bits take K = 1 or at least 3. The bins are
    those of the whole vector, so that a server in parts does not take it.

    Source: SparseLoCo's code (CCLoco, templar), whose chunks are squares of matrices and whose bins are of a tensor.
    """

    value_bits: int = 2  # b, bits of a value: 2 to 8

    is_shardable = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_bits not in range(2, 9):
            raise ValueError(f"value_bits={self.value_bits}: chunk_top_k_bins takes 2 to 8 bits a value")

    def encode_shard(  # pyright: ignore[reportIncompatibleMethodOverride]: another payload
        self, x: Tensor, shard: Shard, key: MessageKey | None = None
    ) -> ChosenBins:
        values, indices = super().encode_shard(x, shard, key)
        return ChosenBins(self._bins.encode_shard(values, whole(values.shape[-1])), indices)

    def decode(self, payload: Any, d: int) -> Tensor:
        values = self._bins.decode(payload.values, self._count(d))
        return super().decode(Chosen(values, payload.indices), d)

    def bits(self, d: int) -> int:
        return self._bins.bits(self._count(d)) + self._count(d) * self._width

    def pi(self, d: int) -> float:
        return super().pi(d) * self._bins.pi(self._count(d))

    def check(self, d: int) -> None:
        self._bins.check(self._count(d))

    @property
    def _bins(self) -> BinMeans:
        return BinMeans(self.value_bits)
