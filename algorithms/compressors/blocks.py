"""One compressor, block by block."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Compressor, Payload, Shardable, Wrapper
from .shard import Shard

BUCKET_MB = 25.0
"""What DistributedDataParallel puts together by default."""


def buckets(sizes: Sequence[int], mb: float) -> tuple[int, ...]:
    """How many coordinates the buckets have into which tensors of these sizes are put.

    From the last tensor to the first, as backward comes to them, each bucket until it has `mb` · 2²⁰ bytes or more of
    coordinates of 4 bytes; the result is in the order of the tensors.
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

    `partition: layer` has a block a tensor, `partition: bucket` those of `buckets`.

    Every block has its own scale, its own choice of coordinates, its own draw. Bits are summed over the blocks; the
    payload is the tuple of theirs. ‖C(x) − x‖² is the sum over the blocks, so π is that of the worst block.

    Source: the CD-Adam authors' code offers it as `layerwise`, and compresses the whole vector by default.
    """

    sizes: tuple[int, ...]

    @property
    def is_shardable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.compressor.is_shardable

    @property
    def varies(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._shardable().varies

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))  # a list would not hash
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"sizes={self.sizes}: it takes one block or more, of one coordinate or more")

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        return tuple(self.compressor.encode(block, of_block) for block, of_block in self._blocks(x, key))

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Payload:
        parts, one = [], self._shardable()
        for number, within in self._within(shard):
            block = x[..., : within.size]
            x = x[..., within.size :]
            if within.is_concerned():
                payload = one.encode_shard(block, within, _of_block(key, number))
                parts += [payload] if within.size else []
        return tuple(parts)

    def asks(self, shard: Shard, dtype: torch.dtype) -> int:
        return sum(self._shardable().asks(part, dtype) for _, part in self._within(shard) if 0 < part.size < part.d)

    def cut(self, payload: Payload, shard: Shard) -> Payload:
        own = ((payload[number], within) for number, within in self._within(shard) if within.size)
        return tuple(part if within.is_whole else self._shardable().cut(part, within) for part, within in own)

    def decode_shard(self, payload: Payload, shard: Shard) -> Tensor:
        own = zip(payload, (within for _, within in self._within(shard) if within.size), strict=True)
        return torch.cat([self._shardable().decode_shard(part, within) for part, within in own], -1)

    def places(self, d: int) -> Sequence[int]:
        begins = [0, *accumulate(self.sizes[:-1])]
        blocks = zip(begins, self.sizes, strict=True)
        inner = (begin + place for begin, size in blocks for place in self._shardable().places(size))
        return sorted({*begins[1:], *inner})

    def decode(self, payload: Payload, d: int) -> Tensor:
        blocks = zip(payload, self.sizes, strict=True)
        return torch.cat([self.compressor.decode(part, size) for part, size in blocks], -1)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        return torch.cat([self.compressor(block, of_block) for block, of_block in self._blocks(x, key)], -1)

    def bits(self, d: int) -> int:
        return sum(self.compressor.bits(size) for size in self.sizes)

    def pi(self, d: int) -> float:
        return min(self.compressor.pi(size) for size in self.sizes)

    def omega(self, d: int) -> float:
        return max(self.compressor.omega(size) for size in self.sizes)

    def partitioned(self, other: Compressor) -> Compressor:
        return Blocks(other, self.sizes)

    def check(self, d: int) -> None:
        if sum(self.sizes) != d:
            raise ValueError(f"blocks of {sum(self.sizes)} coordinates in all: the vectors have d = {d}")
        for size in self.sizes:
            self.compressor.check(size)

    def _blocks(self, x: Tensor, key: MessageKey | None) -> list[tuple[Tensor, MessageKey | None]]:
        """The blocks of x, each with a key of its own: blocks of one size would draw alike from the same key."""
        return [(block, _of_block(key, number)) for number, block in enumerate(x.split(self.sizes, -1))]

    def _within(self, shard: Shard) -> list[tuple[int, Shard]]:
        """The blocks by number, and what a shard has of each."""
        begins = [0, *accumulate(self.sizes[:-1])]
        return [
            (number, shard.within(begin, size))
            for number, (begin, size) in enumerate(zip(begins, self.sizes, strict=True))
        ]

    def _shardable(self) -> Shardable:
        assert isinstance(self.compressor, Shardable)  # who cuts has made sure
        return self.compressor


@dataclass(frozen=True)
class Parts(Compressor):
    """C(x) = (C₁(x₁), …, C_B(x_B)) for consecutive parts of the given sizes, each with a compressor of its own."""

    compressors: tuple[Compressor, ...]
    sizes: tuple[int, ...]

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        parts = zip(self.compressors, x.split(self.sizes, -1), strict=True)
        return tuple(compressor.encode(part, key) for compressor, part in parts)

    def decode(self, payload: Payload, d: int) -> Tensor:
        parts = zip(self.compressors, payload, self.sizes, strict=True)
        return torch.cat([compressor.decode(part, size) for compressor, part, size in parts], -1)

    def sent(self, payload: Payload, d: int) -> Tensor:
        parts = zip(self.compressors, payload, self.sizes, strict=True)
        return torch.cat([compressor.sent(part, size) for compressor, part, size in parts], -1)

    def bits(self, d: int) -> int:
        return sum(compressor.bits(size) for compressor, size in zip(self.compressors, self.sizes, strict=True))

    def pi(self, d: int) -> float:
        return min(compressor.pi(size) for compressor, size in zip(self.compressors, self.sizes, strict=True))


def _of_block(key: MessageKey | None, number: int) -> MessageKey | None:
    return None if key is None else key._replace(direction=f"{key.direction}/{number}")
