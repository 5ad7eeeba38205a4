"""Workers shared over the ranks of a process group, on the wire path; rank 0 is the server."""

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from algorithms.compressors import Payload
from algorithms.protocol import Algorithm, ServerState
from algorithms.wire import Wire, gather
from experiments.cluster.base import Cluster


class Torchrun(Cluster):
    """A cluster of which every rank has as many workers, in order of ranks.

    The server decodes the payloads that arrived into one stacked tensor and works on it as the simulation does on its
    own, so that both give the same bits on the same CPU with `threads=1`. Several threads, and a GPU, may add up a
    long vector in another order where it is the only one of its process: the last bit of its scale is then another.
    """

    def __init__(self, algorithm: Algorithm, ids: Sequence[int], seed: int) -> None:
        super().__init__(algorithm, ids, seed)
        self.is_server = dist.get_rank() == 0
        self._wire = Wire(algorithm, seed)

    def mean(self, vectors: Tensor) -> Tensor | None:
        stacked = gather(vectors.contiguous(), vectors.dim() - 2)
        return None if stacked is None else stacked.mean(-2)

    def _exchange(
        self, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        return self._wire.exchange(up, server, x, t)
