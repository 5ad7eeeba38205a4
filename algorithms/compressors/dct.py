"""The largest coefficients of the discrete cosine transform of chunks of matrices."""

from dataclasses import dataclass
from functools import cache
from math import cos, pi, prod

import torch
from torch import Tensor

from ..utils.layout import Block, Layout, check_layout
from ..utils.linalg import product
from ..utils.seeding import MessageKey
from .base import Compressor, Identity, Payload
from .blocks import Parts
from .chunk_top_k import ChunkTopK
from .packing import table


@dataclass(frozen=True)
class Chunks:
    """Maps vectors to the orthonormal DCT-II of their tensors' chunks, h × w each, and back.

    h and w are the largest divisors of m and n up to `side`; a tensor of one axis has n = 1. Without `dct` the
    coefficients are the coordinates.
    """

    layout: Layout
    side: int
    dct: bool

    def forward(self, x: Tensor) -> Tensor:
        """Return the coefficients of vectors [..., d]."""
        parts = []
        for block in self.layout:
            h, w = self.shape(block)
            chunks = block.view(x).unflatten(-1, (-1, w)).unflatten(-3, (-1, h)).movedim(-3, -2)
            parts.append(self._transform(chunks, basis(h, x), basis(w, x)).flatten(-4))
        return torch.cat(parts, -1)

    def inverse(self, z: Tensor) -> Tensor:
        """Return the vectors [..., d] of coefficients."""
        parts = []
        for block in self.layout:
            (h, w), part = self.shape(block), z[..., block.offset : block.offset + block.size]
            chunks = part.unflatten(-1, (block.rows // h, block.columns // w, h, w))
            chunks = self._transform(chunks, basis(h, z).mT, basis(w, z).mT)
            parts.append(chunks.movedim(-2, -3).flatten(-4))
        return torch.cat(parts, -1)

    def shape(self, block: Block) -> tuple[int, int]:
        """Return h and w."""
        return _divisor(block.rows, self.side), _divisor(block.columns, self.side)

    def _transform(self, chunks: Tensor, left: Tensor, right: Tensor) -> Tensor:
        return product(product(left, chunks), right.mT) if self.dct else chunks


@dataclass(frozen=True)
class DctTopK(Compressor):
    """C(x) keeps the k largest DCT coefficients of every chunk of a tensor: k(32 + ⌈log₂ hw⌉) bits a chunk.

    Chunks are h × w, the largest divisors of m and n up to `side`; tensors of one axis are cut into h × 1, and
    filters are (out, all else). A chunk with fewer than k coefficients sends all. The transform is the orthonormal
    DCT-II along both axes, so π = k/hw of the largest chunk. Without `dct` it keeps the largest coordinates.

    Source: DeMo (Peng, Quesnelle and Kingma 2024), whose code sends 64 bits an index.
    """

    k: int = 32  # coefficients that a chunk sends
    side: int = 64  # of a chunk, at most; 2 to 256
    dct: bool = True  # false: the largest coordinates themselves
    layout: Layout = ()

    def __post_init__(self) -> None:
        if self.k < 1 or not 2 <= self.side <= 256:
            raise ValueError(f"k={self.k}, side={self.side}: dct_top_k takes k ≥ 1 and 2 ≤ side ≤ 256")

    @property
    def chunks(self) -> Chunks:
        return Chunks(self.layout, self.side, self.dct)

    @property
    def coefficient_compressor(self) -> Parts:
        """The compressor of coefficients: top-k of every chunk."""
        sizes = {block: prod(self.chunks.shape(block)) for block in self.layout}
        chosen = (ChunkTopK(min(self.k, size), size) if size > 1 else Identity() for size in sizes.values())
        return Parts(tuple(chosen), tuple(block.size for block in sizes))

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        return self.coefficient_compressor.encode(self.chunks.forward(x), key)

    def decode(self, payload: Payload, d: int) -> Tensor:
        return self.chunks.inverse(self.coefficient_compressor.decode(payload, d))

    def bits(self, d: int) -> int:
        return self.coefficient_compressor.bits(d)

    def pi(self, d: int) -> float:
        return self.coefficient_compressor.pi(d)

    def check(self, d: int) -> None:
        check_layout(self.layout, d)


def basis(n: int, like: Tensor) -> Tensor:
    """Return the orthonormal DCT-II [n, n] in `like`'s dtype and device: row j is √(2/n)·cos(π(2i + 1)j/2n), and
    1/√n for j = 0."""
    return table(_rows(n), like.dtype, like.device).view(n, n)


@cache
def _rows(n: int) -> tuple[float, ...]:
    rest = (cos(pi * (2 * i + 1) * j / (2 * n)) * (2 / n) ** 0.5 for j in range(1, n) for i in range(n))
    return (*[n**-0.5] * n, *rest)


@cache
def _divisor(n: int, most: int) -> int:
    """Return the largest divisor of n that is at most `most`."""
    return next(one for one in range(min(n, most), 0, -1) if n % one == 0)
