"""One compressor, block by block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Compressor, Payload, Shardable, Wrapper
from .shard import Shard, whole_shard

BUCKET_MB = 25.0
"""Bucket size of DistributedDataParallel by default."""


def bucket_sizes(sizes: Sequence[int], mb: float) -> tuple[int, ...]:
    """Return the numbers of coordinates of the buckets for tensors of these sizes, in the order of the tensors.

    Buckets are filled from the last tensor to the first, as in backward. One is full when it has at least `mb` · 2²⁰
    bytes, at 4 bytes a coordinate.
    """
    found = [0]
    for size in reversed(sizes):
        found[0] += size
        if found[0] * 4 >= mb * 2**20:
            found.insert(0, 0)
    return tuple(size for size in found if size)


@dataclass(frozen=True)
class Blocks(Wrapper, Shardable):  # pyright: ignore[reportIncompatibleVariableOverride]: Wrapper's
    """C(x) = (C(x₁), …, C(x_B)) for consecutive blocks of the given sizes.

    `partition: layer` makes a block of every tensor, `partition: bucket` the blocks of `bucket_sizes`.

    Every block has its own scale, chosen coordinates and draw. Bits are summed over the blocks, and the payload is a
    tuple of the blocks' payloads. ‖C(x) − x‖² is a sum over the blocks, so π is the worst block's. A shard has whole
    blocks.

    Source: the CD-Adam authors' code offers it as `layerwise`, and compresses the whole vector by default.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sizes", tuple(self.sizes))  # a list would not hash
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"sizes={self.sizes}: needs at least one block, each with at least one coordinate")

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Payload:
        return tuple(self.compressor.encode(block, own) for block, own in self._blocks(x, shard, key))

    def cut(self, payload: Payload, shard: Shard) -> Payload:
        return payload[self._within(shard)]

    def decode(self, payload: Payload, d: int) -> Tensor:
        return self.decode_shard(payload, whole_shard(d))

    def decode_shard(self, payload: Payload, shard: Shard) -> Tensor:
        blocks = zip(payload, self.sizes[self._within(shard)], strict=True)
        return torch.cat([self.compressor.decode(part, size) for part, size in blocks], -1)

    def cut_points(self, d: int) -> Sequence[int]:
        return list(accumulate(self.sizes[:-1]))

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        blocks = self._blocks(x, whole_shard(x.shape[-1]), key)
        return torch.cat([self.compressor(block, own) for block, own in blocks], -1)

    def bits(self, d: int) -> int:
        return sum(self.compressor.bits(size) for size in self.sizes)

    def pi(self, d: int) -> float:
        return min(self.compressor.pi(size) for size in self.sizes)

    def omega(self, d: int) -> float:
        return max(self.compressor.omega(size) for size in self.sizes)

    def check(self, d: int) -> None:
        if sum(self.sizes) != d:
            raise ValueError(f"blocks of {sum(self.sizes)} coordinates in all: the vectors have d = {d}")
        for size in self.sizes:
            self.compressor.check(size)

    def _blocks(self, x: Tensor, shard: Shard, key: MessageKey | None) -> Iterator[tuple[Tensor, MessageKey | None]]:
        """Yield the blocks of x, each with its own key: with one key, blocks of equal size would draw alike."""
        within = self._within(shard)
        for number, block in enumerate(x.split(self.sizes[within], -1), within.start):
            yield block, None if key is None else key._replace(direction=f"{key.direction}/{number}")

    def _within(self, shard: Shard) -> slice:
        begins = [0, *accumulate(self.sizes)]
        return slice(begins.index(shard.begin), begins.index(shard.end))


@dataclass(frozen=True)
class Parts(Compressor):
    """C(x) = (C₁(x₁), …, C_B(x_B)) for consecutive parts of the given sizes, each with its own compressor."""

    compressors: tuple[Compressor, ...]
    sizes: tuple[int, ...]

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        parts = zip(self.compressors, x.split(self.sizes, -1), strict=True)
        return tuple(compressor.encode(part, key) for compressor, part in parts)

    def decode(self, payload: Payload, d: int) -> Tensor:
        parts = zip(self.compressors, payload, self.sizes, strict=True)
        return torch.cat([compressor.decode(part, size) for compressor, part, size in parts], -1)

    def sent_mask(self, payload: Payload, d: int) -> Tensor:
        parts = zip(self.compressors, payload, self.sizes, strict=True)
        return torch.cat([compressor.sent_mask(part, size) for compressor, part, size in parts], -1)

    def bits(self, d: int) -> int:
        return sum(compressor.bits(size) for compressor, size in zip(self.compressors, self.sizes, strict=True))

    def pi(self, d: int) -> float:
        return min(compressor.pi(size) for compressor, size in zip(self.compressors, self.sizes, strict=True))
