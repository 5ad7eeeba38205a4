"""The mean over workers, added up in worker order: (((w₁ + w₂) + w₃) + …)/n."""

from collections.abc import Iterable

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
