"""Aggregation of worker messages: their mean, (((w₁ + w₂) + w₃) + …)/n, or another `Combine`."""

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
    """Average vectors [*T, d] from an iterator. Only the sum and one vector are in memory.

    workers: divides the sum; None: the number of vectors.
    """
    total, count = torch.zeros(()), 0
    for vector in vectors:
        total = total.add_(vector) if count else vector.clone()
        count += 1
        del vector  # before the next is made
    return total.div_(workers or count)


def mean_of_stacked(vectors: Tensor, workers: int | None = None) -> Tensor:
    """`mean_of` for vectors [*T, W, d] in one tensor, with the same bits.

    On a CPU numpy adds row after row, at the speed of memory. The order of torch's own mean depends on d. The sum
    begins with −0, because −0 + x = x for every x.
    """
    workers = workers or vectors.shape[-2]
    if vectors.shape[-2] == workers == 1:
        return vectors.squeeze(-2)
    if vectors.device.type != "cpu" or vectors.shape[-1] == 1:  # numpy adds up a lone column pairwise
        return mean_of(vectors.unbind(-2), workers)
    return torch.from_numpy(np.add.reduce(vectors.contiguous().numpy(), axis=-2, initial=-0.0)).div_(workers)


class Combine(ABC):
    """A rule that aggregates the workers' messages of d coordinates. `codec` decodes them."""

    needs_payloads: ClassVar[bool] = False
    """Whether it reads payloads, not only C(x). Then the dense path also packs messages of the uplink."""

    @abstractmethod
    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        """Aggregate the messages of all workers, in worker order, to one vector [*T, d]."""

    @abstractmethod
    def aggregate_stacked(self, payload: Payload, codec: Compressor, d: int) -> Tensor:
        """`aggregate` for one payload with a worker axis, with the same bits."""


@dataclass(frozen=True)
class Mean(Combine):
    """mean_i w_i over n = `workers`; absent workers count as zero. None: over the workers that send."""

    workers: int | None = field(default=None, repr=False)  # entries of the leaderboard hold the text `Mean()`

    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        return mean_of((codec.decode(payload, d) for payload in payloads), self.workers)

    def aggregate_stacked(self, payload: Payload, codec: Compressor, d: int) -> Tensor:
        return mean_of_stacked(codec.decode(payload, d), self.workers)


@dataclass(frozen=True, eq=False)
class Nothing(Combine):
    """Zeros [*T, d], for a round in which no worker sends."""

    zeros: Tensor

    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        return self.zeros

    aggregate_stacked = aggregate  # pyright: ignore[reportAssignmentType]: neither looks at messages


@dataclass(frozen=True)
class SendersMean(Combine):
    """Average each coordinate over the workers that sent it, zeros included; 0 where none did."""

    needs_payloads = True

    def aggregate(self, payloads: Iterable[Payload], codec: Compressor, d: int) -> Tensor:
        return _senders_mean((codec.decode(payload, d), codec.sent_mask(payload, d)) for payload in payloads)

    def aggregate_stacked(self, payload: Payload, codec: Compressor, d: int) -> Tensor:
        vectors, sent = codec.decode(payload, d), codec.sent_mask(payload, d)
        return _senders_mean(zip(vectors.unbind(-2), sent.unbind(-2), strict=True))


def _senders_mean(messages: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    vectors, sent = zip(*messages, strict=True)
    return reduce(torch.add, vectors) / torch.stack(sent).sum(0).clamp(min=1)
