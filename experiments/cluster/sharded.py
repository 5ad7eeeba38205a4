"""The server in parts: every rank has some of the coordinates, if there are enough."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from algorithms.comm.gather_broadcast import contact
from algorithms.comm.sharded_server import ShardedServer, cuts
from algorithms.core.algorithm import Algorithm, ServerState
from experiments.cluster.torchrun import Torchrun


class Sharded(Torchrun):
    """Every round each rank gets n messages' shards of its own coordinates, and all get its answer.

    The numbers are those of the server on rank 0, bit for bit, and so is what is counted. A vector is cut between
    pieces (`algorithms.compressors.shard.piece`), so that one of a few thousand coordinates has one server.
    """

    def __init__(
        self, algorithm: Algorithm, ids: Sequence[int], shares: Sequence[int], seed: int, d: int, timeout: float
    ) -> None:
        super().__init__(algorithm, ids, shares, seed)
        self._cuts = self.cuts = cuts(algorithm, d, len(shares))
        self._wire = ShardedServer(algorithm, seed, shares, self._cuts, timeout)
        self._receiver = algorithm.unpacked()  # the wire decodes what comes down

    def start_server(self, x: Tensor) -> ServerState | None:
        return self._sender.start_server(self.served(x).clone()) if self._wire.served else None

    def served(self, vectors: Tensor) -> Tensor:
        mine = self._wire.served
        return vectors[..., mine.begin : mine.end] if mine else vectors[..., :0]

    def aggregate(self, server: ServerState | None) -> Tensor | None:
        if server is None:
            return None
        if not self.is_first:
            with contact():
                dist.send(server.aggregate.contiguous(), dst=0)
            return None
        parts, lead = [server.aggregate], server.aggregate.shape[:-1]
        for rank in range(1, len(self._cuts) - 1):
            theirs = server.aggregate.new_empty(*lead, self._cuts[rank + 1] - self._cuts[rank])
            with contact():
                dist.recv(theirs, src=rank)
            parts.append(theirs)
        return torch.cat(parts, -1)
