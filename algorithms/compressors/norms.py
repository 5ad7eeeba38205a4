"""Norms as scales, safe at both ends of the floating-point range."""

import torch
from torch import Tensor


def largest(x: Tensor) -> Tensor:
    """‖x‖∞ as [..., 1]."""
    return x.abs().amax(-1, keepdim=True)


def divisor(scale: Tensor) -> Tensor:
    """The scale, or 1 where it is zero: a zero vector divided by it stays zero."""
    return torch.where(scale > 0, scale, 1)


def euclidean(x: Tensor) -> tuple[Tensor, Tensor]:
    """(u, ‖x/u‖₂) as [..., 1] each with u = ‖x‖∞ or 1: ‖x‖₂ is their product.

    Squares of x itself would overflow for huge x and vanish for tiny x.
    """
    unit = divisor(largest(x))
    return unit, torch.linalg.vector_norm(x / unit, dim=-1, keepdim=True)
