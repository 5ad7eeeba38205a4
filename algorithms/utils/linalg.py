"""Batched linear algebra. Each matrix gets the same bits as alone."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

_ALIGNED = 16
"""Rows of a multiple of 16 floats begin at multiples of 64 bytes. The last bits of a product depend on it."""


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return AB [..., m, r] for matrices [..., m, n] and [..., n, r]. Leading axes are broadcast.

    Every matrix has its own product, so its last bits do not depend on the number of others.
    """
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # torch's is slower than a small product
    m, (n, r) = a.shape[-2], b.shape[-2:]
    full_n, full_r = (-(-size // _ALIGNED) * _ALIGNED for size in (n, r))
    matrices = _pad_to(a, m, full_n), _pad_to(b, full_n, full_r)
    flat = (one.expand(*lead, *one.shape[-2:]).reshape(-1, *one.shape[-2:]).contiguous() for one in matrices)
    return torch.bmm(*flat)[..., :r].reshape(*lead, m, r)


def orthonormalize(a: Tensor) -> Tensor:
    """Return the Q [..., m, r] of A = QR, for matrices A [..., m, r] with m ≥ r."""
    m, r = a.shape[-2:]
    return torch.linalg.qr(_pad_to(a, -(-m // _ALIGNED) * _ALIGNED, r)).Q[..., :m, :]


def join(matrices: Sequence[Tensor], others: Tensor) -> Tensor:
    """Concatenate matrices [..., m, n], flattened, and others [..., k]."""
    return torch.cat([*(matrix.flatten(-2) for matrix in matrices), others], -1)


def cut(vectors: Tensor, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Cut vectors into consecutive matrices of these shapes."""
    parts = vectors.split([rows * columns for rows, columns in shapes], -1) if shapes else ()
    return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True)]


def _pad_to(matrices: Tensor, rows: int, columns: int) -> Tensor:
    """Append zeros, so that matrices have this size."""
    missing = (0, columns - matrices.shape[-1], 0, rows - matrices.shape[-2])
    return pad(matrices, missing) if any(missing) else matrices
