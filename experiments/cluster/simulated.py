"""All n workers and the server in one process, on the dense path."""

from torch import Tensor

from algorithms.compressors import Payload
from algorithms.core.aggregation import mean_of_stacked
from algorithms.core.algorithm import Algorithm, ServerState, Stage
from experiments.cluster.base import Cluster


class Simulated(Cluster):
    """A cluster whose worker axis holds all n workers."""

    def __init__(self, algorithm: Algorithm, workers: int, seed: int) -> None:
        super().__init__(algorithm, range(workers), seed)
        self._sender = self._receiver = algorithm.unpacked()

    def mean(self, vectors: Tensor) -> Tensor:
        return mean_of_stacked(vectors)

    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState]:
        assert server is not None  # it is here
        return stage.server(up, server, t, self.seed)
