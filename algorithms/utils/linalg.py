"""Batched linear algebra. Each matrix gets the same bits as alone."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return AB [..., m, r] for matrices [..., m, n] and [..., n, r]. Leading axes are broadcast.

    Every matrix has its own product, so its last bits do not depend on the number of others.
    """
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # torch's is slower than a small product
    flat = (matrix.expand(*lead, *matrix.shape[-2:]).reshape(-1, *matrix.shape[-2:]) for matrix in (a, b))
    return torch.bmm(*flat).view(*lead, a.shape[-2], b.shape[-1])


def join(matrices: Sequence[Tensor], others: Tensor) -> Tensor:
    """Concatenate matrices [..., m, n], flattened, and others [..., k]."""
    return torch.cat([*(matrix.flatten(-2) for matrix in matrices), others], -1)


def cut(vectors: Tensor, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Cut vectors into consecutive matrices of these shapes."""
    parts = vectors.split([rows * columns for rows, columns in shapes], -1) if shapes else ()
    return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True)]
