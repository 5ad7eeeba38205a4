"""The server on rank 0: it has all coordinates."""

from collections.abc import Sequence

import torch
from torch import Tensor

from algorithms.comm.gather_broadcast import GatherBroadcast
from algorithms.compressors import Payload
from algorithms.core.algorithm import Algorithm, ServerState, Stage
from experiments.cluster.torchrun import Torchrun


class Rank0(Torchrun):
    """Every round n messages go to rank 0 and one comes back to all."""

    def __init__(self, algorithm: Algorithm, ids: Sequence[int], shares: Sequence[int], seed: int) -> None:
        super().__init__(algorithm, ids, shares, seed)
        self._wire = GatherBroadcast(algorithm, seed, shares=shares)

    def start_server(self, x: Tensor) -> ServerState | None:
        return super().start_server(x) if self.is_first else None

    def arriving(self, d: int, dtype: torch.dtype, trials: int) -> int:
        return self._messages(d, dtype, trials) if self.is_first else 0

    def aggregate(self, server: ServerState | None) -> Tensor | None:
        return server.aggregate if server else None

    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        self._wire.algorithm = stage
        width = stage.width(x.shape[-1])
        like = x if width == x.shape[-1] else x.new_zeros(*x.shape[:-1], width)
        return self._wire.exchange(up, server, like, t)
