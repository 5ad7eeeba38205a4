"""Parameter tensors, with shapes and roles, as blocks of one flat vector."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import torch
from torch import Tensor

Role = Literal["matrix", "vector", "embedding", "head"]
"""What a tensor is for, which its shape does not tell: a matrix leads from one hidden layer to another, as filters
do; an embedding reads the input, a head gives the output; biases and the scales of norms are vectors."""


@dataclass(frozen=True)
class Block:
    """A parameter tensor: the coordinates `offset` to `offset + size` of a vector, in the order of its indices.

    As a matrix it has m rows, its first axis, and n columns, all other axes together.
    """

    name: str
    shape: tuple[int, ...]  # as it lies in the vector
    role: Role
    offset: int

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def columns(self) -> int:
        return self.size // self.shape[0]

    def view(self, vectors: Tensor) -> Tensor:
        """Its part of vectors [..., d] as matrices [..., m, n]: a view."""
        return vectors[..., self.offset : self.offset + self.size].unflatten(-1, (self.rows, self.columns))


Layout = tuple[Block, ...]
"""The blocks of a vector from its first coordinate to its last; () where nobody knows them yet."""


def laid_out(tensors: Iterable[tuple[str, tuple[int, ...], Role]]) -> Layout:
    """The layout of tensors side by side, of which each has a name, a shape and a role."""
    blocks: list[Block] = []
    for name, shape, role in tensors:
        blocks.append(Block(name, tuple(shape), role, blocks[-1].offset + blocks[-1].size if blocks else 0))
    return tuple(blocks)


def vector_layout(sizes: Iterable[int]) -> Layout:
    """The layout of tensors of which the sizes alone are known."""
    return laid_out((f"tensor {number}", (size,), "vector") for number, size in enumerate(sizes))


def with_ends(layout: Layout) -> Layout:
    """The first of the matrices as an embedding and the last as the head, where layers follow one another."""
    matrices = [block for block in layout if block.role == "matrix"]
    ends: dict[Block, Role] = {**dict.fromkeys(matrices[:1], "embedding"), **dict.fromkeys(matrices[-1:], "head")}
    return tuple(replace(block, role=ends.get(block, block.role)) for block in layout)


def matrices_of(layout: Layout) -> Layout:
    """Its blocks of two axes or more, whatever their roles."""
    return tuple(block for block in layout if len(block.shape) > 1)


def check_layout(layout: Layout, d: int) -> None:
    """Raise ValueError unless these are the blocks of vectors of d coordinates."""
    if not layout:
        raise ValueError(
            "needs layout=, the shapes and roles of the parameter tensors, which a task declares (Task.layout, "
            "algorithms.utils.layout.laid_out)"
        )
    if (found := sum(block.size for block in layout)) != d:
        raise ValueError(f"layout: blocks of {found} coordinates in all; the vectors have d = {d}")


@dataclass(frozen=True)
class Split:
    """A vector as two: the coordinates of chosen blocks, and all others."""

    layout: Layout
    chosen: Layout

    @property
    def others(self) -> Layout:
        """The blocks that are not chosen."""
        return tuple(block for block in self.layout if block not in self.chosen)

    def separate(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Of vectors [..., d] the chosen coordinates [..., c], and the others [..., d − c]."""
        return _concatenate(vectors, self.chosen), _concatenate(vectors, self.others)

    def join(self, chosen: Tensor, others: Tensor) -> Tensor:
        """The vectors that `separate` was given."""
        parts = {
            **dict(zip(self.chosen, chosen.split([block.size for block in self.chosen], -1), strict=True)),
            **dict(zip(self.others, others.split([block.size for block in self.others], -1), strict=True)),
        }
        return torch.cat([parts[block] for block in self.layout], -1)


def _concatenate(vectors: Tensor, blocks: Layout) -> Tensor:
    parts = [vectors[..., block.offset : block.offset + block.size] for block in blocks]
    return torch.cat(parts, -1) if parts else vectors[..., :0]
