"""All n workers and the server in one process, on the dense path."""

from torch import Tensor

from algorithms.compressors import Payload
from algorithms.protocol import Algorithm, ServerState
from experiments.cluster.base import Cluster


class Simulated(Cluster):
    """A cluster whose worker axis holds all n workers."""

    def __init__(self, algorithm: Algorithm, workers: int, seed: int) -> None:
        super().__init__(algorithm, range(workers), seed)
        self._path = algorithm.unpacked()

    def mean(self, vectors: Tensor) -> Tensor:
        return vectors.contiguous().mean(-2)  # as the vectors of other ranks arrive

    def _exchange(self, up: Payload, server: ServerState | None, x: Tensor, t: int) -> tuple[Payload, ServerState]:
        assert server is not None  # it is here
        return self._path.server(up, server, t, self.seed)
