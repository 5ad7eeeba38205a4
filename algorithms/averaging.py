"""What is made of the messages of all workers: their mean, added up in worker order, (((w₁ + w₂) + w₃) + …)/n.

Or something else in its place: a `Combine`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def mean_of(vectors: Iterable[Tensor]) -> Tensor:
    """The mean [*T, d] of vectors [*T, d] that come one after the other, of which it holds one and the sum.

    Raises ValueError where there are none.
    """
    total, count = torch.zeros(()), 0
    for vector in vectors:
        total = total.add_(vector) if count else vector.clone()
        count += 1
        del vector  # before the next is made
    if not count:
        raise ValueError("no worker sent anything")
    return total.div_(count)


def mean_of_stacked(vectors: Tensor) -> Tensor:
    """`mean_of` for vectors [*T, W, d] of one tensor, to the same bits.

    On a CPU numpy adds row after row, at the speed of memory; torch's own mean has an order that depends on d. It
    begins with −0, to which any number can be added without changing it.
    """
    if vectors.device.type != "cpu" or vectors.shape[-1] == 1:  # numpy adds up a lone column pairwise
        return mean_of(vectors.unbind(-2))
    return torch.from_numpy(np.add.reduce(vectors.contiguous().numpy(), axis=-2, initial=-0.0)).div_(
        vectors.shape[-2]
    )


class Combine(ABC):
    """What a server makes of decoded messages, in worker order."""

    @abstractmethod
    def of(self, vectors: Iterable[Tensor]) -> Tensor:
        """One vector [*T, d] for those of all workers, which come one after the other."""

    def of_stacked(self, vectors: Tensor) -> Tensor:
        """`of` for vectors [*T, W, d] of one tensor, to the same bits."""
        return self.of(vectors.unbind(-2))


@dataclass(frozen=True)
class Mean(Combine):
    """mean_i w_i."""

    def of(self, vectors: Iterable[Tensor]) -> Tensor:
        return mean_of(vectors)

    def of_stacked(self, vectors: Tensor) -> Tensor:
        return mean_of_stacked(vectors)


@dataclass(frozen=True)
class SendersMean(Combine):
    """Of every coordinate the mean over the workers that sent it: whose w_i is not zero there."""

    def of(self, vectors: Iterable[Tensor]) -> Tensor:
        total = senders = None
        for vector in vectors:
            total = vector if total is None else total + vector
            senders = (vector != 0).to(vector.dtype) if senders is None else senders + (vector != 0)
        if total is None or senders is None:
            raise ValueError("no worker sent anything")
        return total / senders.clamp(min=1)
