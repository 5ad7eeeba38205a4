"""Workers shared over the ranks of a process group, on the wire path."""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from algorithms.comm.gather_broadcast import GatherBroadcast, contact
from algorithms.comm.sharded_server import ShardedServer
from algorithms.compressors import Payload
from algorithms.core.aggregation import mean_of
from algorithms.core.algorithm import Algorithm, ServerState, Stage
from algorithms.core.grouped import SideBySide
from algorithms.core.participation import Participation
from experiments.cluster.base import Cluster


class Torchrun(Cluster):
    """A cluster whose workers are shared over the ranks, in order of ranks: `shares` is how many each has.

    Every round n messages go to the server on rank 0, and one comes back to all. A server adds up the payloads in the
    order of workers, as the simulation does, so that both give the same bits on the same CPU with `threads=1`.
    Several threads, and a GPU, may add up a long vector in another order where it is the only one of its process.
    """

    _wire: Any  # a GatherBroadcast, or a ShardedServer

    def __init__(
        self,
        algorithm: Algorithm,
        ids: Sequence[int],
        shares: Sequence[int],
        seed: int,
        participation: Participation | None = None,
    ) -> None:
        super().__init__(algorithm, ids, seed, participation)
        self.is_first = dist.get_rank() == 0
        self._shares = shares
        self._wire = GatherBroadcast(algorithm, seed, shares=shares)

    def start_server(self, x: Tensor) -> ServerState | None:
        return super().start_server(x) if self.is_first else None

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

    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        self._wire.algorithm = stage
        if self.participation:
            arrivals, ids = self.participation.arrivals(t), iter(range(sum(self._shares)))
            self._wire.shares = [sum(i in arrivals for i in islice(ids, share)) for share in self._shares]
        width = stage.width(x.shape[-1])
        like = x if width == x.shape[-1] else x.new_zeros(*x.shape[:-1], width)
        return self._wire.exchange(up, server, like, t)


class Sharded(Torchrun):
    """Every round each rank gets n messages' shards of its own coordinates, and all get its answer.

    The numbers are those of the server on rank 0, bit for bit, and so is what is counted. A vector is cut between
    pieces (`algorithms.compressors.shard.piece`), so that one of a few thousand coordinates has one server.
    """

    def __init__(self, algorithm: Algorithm, ids: Sequence[int], shares: Sequence[int], seed: int, d: int) -> None:
        super().__init__(algorithm, ids, shares, seed)
        self._wire = ShardedServer(SideBySide((algorithm,), (d,)), seed, shares=shares)
        [self.cuts], [self._shard] = self._wire.cuts, self._wire.served

    def start_server(self, x: Tensor) -> ServerState | None:
        return self._wire.start_server(x)[0]

    def served(self, vectors: Tensor) -> Tensor:
        return vectors[..., self._shard.begin : self._shard.end] if self._shard else vectors[..., :0]

    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        [down], [server] = self._wire.exchange((up,), [server], x, t)
        return down, server

    def aggregate(self, server: ServerState | None) -> Tensor | None:
        if server is None:
            return None
        if not self.is_first:
            with contact():
                dist.send(server.aggregate.contiguous(), dst=0)
            return None
        parts, lead = [server.aggregate], server.aggregate.shape[:-1]
        for rank, (begin, end) in [*enumerate(pairwise(self.cuts or ()))][1:]:
            theirs = server.aggregate.new_empty(*lead, end - begin)
            with contact():
                dist.recv(theirs, src=rank)
            parts.append(theirs)
        return torch.cat(parts, -1)
