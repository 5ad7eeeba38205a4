"""Layout of parameter tensors in one flat vector, with shapes and roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import torch
from torch import Tensor

from .words import check_words

Role = Literal["matrix", "vector", "embedding", "head"]
"""The purpose of a tensor. A matrix or filter leads from one hidden layer to another, an embedding reads the input,
and a head gives the output. Biases and the scales of norms are vectors."""


@dataclass(frozen=True)
class Block:
    """A parameter tensor: the coordinates `offset` to `offset + size` of a vector, in index order.

    As a matrix it has m rows, the first axis, and n columns, all other axes together. A scalar has one row.
    """

    name: str
    shape: tuple[int, ...]  # in the vector
    role: Role
    offset: int

    def __post_init__(self) -> None:
        check_words(Block, vars(self))

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @property
    def columns(self) -> int:
        return self.size // self.rows

    def view(self, vectors: Tensor) -> Tensor:
        """View its part of vectors [..., d] as matrices [..., m, n]."""
        return vectors[..., self.offset : self.offset + self.size].unflatten(-1, (self.rows, self.columns))


Layout = tuple[Block, ...]
"""The blocks of a vector, from its first coordinate to its last; () if unknown."""


def laid_out(tensors: Iterable[tuple[str, tuple[int, ...], Role]]) -> Layout:
    """Return the layout of consecutive tensors, each given by name, shape and role. Empty ones are left out."""
    blocks: list[Block] = []
    for name, shape, role in tensors:
        if not prod(shape):
            continue
        blocks.append(Block(name, tuple(shape), role, blocks[-1].offset + blocks[-1].size if blocks else 0))
    return tuple(blocks)


def vector_layout(sizes: Iterable[int]) -> Layout:
    """Return the layout of tensors of known sizes and unknown shapes, as vectors."""
    return laid_out((f"tensor {number}", (size,), "vector") for number, size in enumerate(sizes))


def with_ends(layout: Layout) -> Layout:
    """Make the first matrix an embedding and the last the head, for consecutive layers."""
    matrices = [block for block in layout if block.role == "matrix"]
    ends: dict[Block, Role] = {**dict.fromkeys(matrices[:1], "embedding"), **dict.fromkeys(matrices[-1:], "head")}
    return tuple(replace(block, role=ends.get(block, block.role)) for block in layout)


def matrices_of(layout: Layout) -> Layout:
    """Return the blocks with at least two axes, of any role."""
    return tuple(block for block in layout if len(block.shape) > 1)


def check_layout(layout: Layout, d: int) -> None:
    """Raise ValueError unless the blocks have d coordinates in all."""
    if not layout:
        raise ValueError(
            "needs layout=, the shapes and roles of the parameter tensors, which a task declares (Task.layout, "
            "algorithms.utils.layout.laid_out)"
        )
    if (found := sum(block.size for block in layout)) != d:
        raise ValueError(f"layout: blocks of {found} coordinates in all; the vectors have d = {d}")


@dataclass(frozen=True)
class Split:
    """Splits vectors into the coordinates of chosen blocks and all others."""

    layout: Layout
    chosen: Layout

    @property
    def others(self) -> Layout:
        """All other blocks."""
        return tuple(block for block in self.layout if block not in self.chosen)

    def separate(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Split vectors [..., d] into the chosen coordinates [..., c] and the others [..., d − c]."""
        return _concatenate(vectors, self.chosen), _concatenate(vectors, self.others)

    def join(self, chosen: Tensor, others: Tensor) -> Tensor:
        """The inverse of `separate`."""
        parts = {
            **dict(zip(self.chosen, chosen.split([block.size for block in self.chosen], -1), strict=True)),
            **dict(zip(self.others, others.split([block.size for block in self.others], -1), strict=True)),
        }
        return torch.cat([parts[block] for block in self.layout], -1)


def _concatenate(vectors: Tensor, blocks: Layout) -> Tensor:
    parts = [vectors[..., block.offset : block.offset + block.size] for block in blocks]
    return torch.cat(parts, -1) if parts else vectors[..., :0]
