"""What a server makes of the messages of all workers: their mean, (((w₁ + w₂) + w₃) + …)/n, or another `Combine`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..compressors.base import Compressor, Payload


def mean_of(vectors: Iterable[Tensor], workers: int | None = None) -> Tensor:
    """Average vectors [*T, d] that come one after the other, with one of them and the sum in memory.

    workers: what the sum is divided by; None: the number of vectors.
    """
    total, count = torch.zeros(()), 0
    for vector in vectors:
        total = total.add_(vector) if count else vector.clone()
        count += 1
        del vector  # before the next is made
    return total.div_(workers or count)


def mean_of_stacked(vectors: Tensor, workers: int | None = None) -> Tensor:
    """`mean_of` for vectors [*T, W, d] of one tensor, to the same bits.

    On a CPU numpy adds row after row, at the speed of memory; torch's own mean has an order that depends on d. It
    begins with −0, to which any number can be added without changing it.
    """
    workers = workers or vectors.shape[-2]
    if vectors.shape[-2] == workers == 1:
        return vectors.squeeze(-2)
    if vectors.device.type != "cpu" or vectors.shape[-1] == 1:  # numpy adds up a lone column pairwise
        return mean_of(vectors.unbind(-2), workers)
    return torch.from_numpy(np.add.reduce(vectors.contiguous().numpy(), axis=-2, initial=-0.0)).div_(workers)


class Combine(ABC):
    """What a server makes of messages of d coordinates, which `codec` decodes, in worker order."""

    needs_payloads: ClassVar[bool] = False
    """Whether it looks at what was sent beside C(x), so that the dense path packs what goes up, too."""

    @abstractmethod
    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        """One vector [*T, d] for the messages of all workers, which come one after the other."""

    @abstractmethod
    def aggregate_stacked(self, payload: Payload, codec: Compressor, d: int) -> Tensor:
        """`aggregate` for a payload with a worker axis, to the same bits."""


@dataclass(frozen=True)
class Mean(Combine):
    """mean_i w_i over n = `workers`, where absent workers count as zero. None: over the workers that send."""

    workers: int | None = field(default=None, repr=False)  # entries of the leaderboard hold the text `Mean()`

    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        return mean_of((codec.decode(payload, d) for payload in payloads), self.workers)

    def aggregate_stacked(self, payload: Payload, codec: Compressor, d: int) -> Tensor:
        return mean_of_stacked(codec.decode(payload, d), self.workers)


@dataclass(frozen=True, eq=False)
class Nothing(Combine):
    """Zeros [*T, d], where no worker sent anything."""

    zeros: Tensor

    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        return self.zeros

    aggregate_stacked = aggregate  # pyright: ignore[reportAssignmentType]: neither looks at messages


@dataclass(frozen=True)
class SendersMean(Combine):
    """Of every coordinate the mean over the workers that sent it, a zero too; 0 where nobody did."""

    needs_payloads = True

    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        return _senders_mean((codec.decode(payload, d), codec.sent_mask(payload, d)) for payload in payloads)

    def aggregate_stacked(self, payload: Payload, codec: Compressor, d: int) -> Tensor:
        vectors, sent = codec.decode(payload, d), codec.sent_mask(payload, d)
        return _senders_mean(zip(vectors.unbind(-2), sent.unbind(-2), strict=True))


def _senders_mean(messages: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    vectors, sent = zip(*messages, strict=True)
    return reduce(torch.add, vectors) / torch.stack(sent).sum(0).clamp(min=1)
