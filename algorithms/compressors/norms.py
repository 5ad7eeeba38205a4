"""Norms as scales, safe at both ends of the floating-point range. x [..., size] is a shard of the vectors."""

import torch
from torch import Tensor

from .shard import Shard


def largest(x: Tensor, shard: Shard) -> Tensor:
    """‖x‖∞ as [..., 1]."""
    return shard.largest(x.abs())


def divisor(scale: Tensor) -> Tensor:
    """The scale, or 1 where it is zero: a zero vector divided by it stays zero."""
    return torch.where(scale > 0, scale, 1)


def euclidean(x: Tensor, shard: Shard) -> tuple[Tensor, Tensor]:
    """(u, ‖x/u‖₂) as [..., 1] each with u = ‖x‖∞ or 1: ‖x‖₂ is their product.

    Squares of x itself would overflow for huge x and vanish for tiny x.
    """
    unit = divisor(largest(x, shard))
    return unit, shard.norm(x / unit)
