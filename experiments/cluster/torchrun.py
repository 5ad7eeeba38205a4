"""Workers shared over the ranks of a process group, on the wire path."""

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from algorithms.comm.gather_broadcast import contact
from algorithms.core.aggregation import mean_of
from algorithms.core.algorithm import Algorithm
from experiments.cluster.base import Cluster


class Torchrun(Cluster):
    """A cluster whose workers are shared over the ranks, in order of ranks: `shares` is how many each has.

    A server decodes and adds up the payloads that arrived in the order of workers, as the simulation does, so that
    both give the same bits on the same CPU with `threads=1`. Several threads, and a GPU, may add up a long vector in
    another order where it is the only one of its process: the last bit of its scale is then another.
    """

    def __init__(self, algorithm: Algorithm, ids: Sequence[int], shares: Sequence[int], seed: int) -> None:
        super().__init__(algorithm, ids, seed)
        self.is_first = dist.get_rank() == 0
        self._shares = shares

    def _messages(self, d: int, dtype: torch.dtype, trials: int) -> int:
        """Bytes of the longest messages of all workers."""
        uplink = self.algorithm.uplink
        longest = max(uplink.payload_bytes(d, t, dtype) for t in (1, uplink.dense_rounds + 1))
        return trials * sum(self._shares) * longest

    def mean(self, vectors: Tensor) -> Tensor | None:
        if self.is_first:
            return mean_of(self._everyones(vectors))
        with contact():
            dist.send(vectors.contiguous(), dst=0)
        return None

    def _everyones(self, vectors: Tensor) -> Iterator[Tensor]:
        """Vectors [*T, d] of one worker after the other, of which one rank's are here at a time."""
        yield from vectors.unbind(-2)
        for rank, share in enumerate(self._shares[1:], 1):
            theirs = vectors.new_empty(*vectors.shape[:-2], share, vectors.shape[-1])
            with contact():
                dist.recv(theirs, src=rank)
            yield from theirs.unbind(-2)
