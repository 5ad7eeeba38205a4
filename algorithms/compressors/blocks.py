"""One compressor, block by block."""

from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.compressors.base import Compressor, Payload, Wrapping
from algorithms.randomness import Key


@dataclass(frozen=True)
class Blocks(Wrapping):
    """C(x) = (C(x₁), …, C(x_B)) for consecutive blocks of the given sizes: `partition: layer`, a block a tensor.

    Every block has its own scale, its own choice of coordinates, its own draw. Bits are summed over the blocks; the
    payload is the tuple of theirs. ‖C(x) − x‖² is the sum over the blocks, so π is that of the worst block.

    Source: the CD-Adam authors' code offers it as `layerwise`, and compresses the whole vector by default.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))  # a list would not hash
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"sizes={self.sizes}: it takes one block or more, of one coordinate or more")

    def encode(self, x: Tensor, key: Key | None = None) -> Payload:
        return tuple(self.compressor.encode(block, of_block) for block, of_block in self._blocks(x, key))

    def decode(self, payload: Payload, d: int) -> Tensor:
        blocks = zip(payload, self.sizes, strict=True)
        return torch.cat([self.compressor.decode(part, size) for part, size in blocks], -1)

    def __call__(self, x: Tensor, key: Key | None = None) -> Tensor:
        return torch.cat([self.compressor(block, of_block) for block, of_block in self._blocks(x, key)], -1)

    def bits(self, d: int) -> int:
        return sum(self.compressor.bits(size) for size in self.sizes)

    def pi(self, d: int) -> float:
        return min(self.compressor.pi(size) for size in self.sizes)

    def partitioned(self, other: Compressor) -> Compressor:
        return Blocks(other, self.sizes)

    def check(self, d: int) -> None:
        if sum(self.sizes) != d:
            raise ValueError(f"blocks of {sum(self.sizes)} coordinates in all: the vectors have d = {d}")
        for size in self.sizes:
            self.compressor.check(size)

    def _blocks(self, x: Tensor, key: Key | None) -> list[tuple[Tensor, Key | None]]:
        """The blocks of x, each with a key of its own: blocks of one size would draw alike from the same key."""
        return [
            (block, None if key is None else key._replace(direction=f"{key.direction}/{number}"))
            for number, block in enumerate(x.split(self.sizes, -1))
        ]
