"""Batches of matrices, each of which comes out as it would alone."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def product(a: Tensor, b: Tensor) -> Tensor:
    """AB [..., m, r] of matrices [..., m, n] and [..., n, r], whose leading axes are broadcast.

    One product a matrix, never one of several stacked: its last bits do not depend on how many others there are.
    """
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # torch's takes longer than the product of small matrices
    flat = (matrix.expand(*lead, *matrix.shape[-2:]).reshape(-1, *matrix.shape[-2:]) for matrix in (a, b))
    return torch.bmm(*flat).view(*lead, a.shape[-2], b.shape[-1])


def join(matrices: Sequence[Tensor], others: Tensor) -> Tensor:
    """Matrices [..., m, n] side by side as vectors, and others [..., k] behind them."""
    return torch.cat([*(matrix.flatten(-2) for matrix in matrices), others], -1)


def cut(vectors: Tensor, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """The matrices of these shapes that lie side by side in vectors."""
    parts = vectors.split([rows * columns for rows, columns in shapes], -1) if shapes else ()
    return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True)]
