"""Clusters over the ranks of a process group, with packed messages."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice, pairwise
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from algorithms.comm.gather_broadcast import GatherBroadcast, broadcast, check_size, convert_collective_errors, gather
from algorithms.comm.sharded_server import ShardedServer
from algorithms.compressors import Payload
from algorithms.core.aggregation import mean_of
from algorithms.core.algorithm import Algorithm, ServerState, Stage
from algorithms.core.grouped import GroupedAlgorithms
from algorithms.core.participation import Participation
from experiments.cluster.base import Cluster, ClusterState


class Torchrun(Cluster):
    """A cluster with its workers shared over the ranks, in order. `shares` has each rank's number of workers.

    Every round n messages go to the server on rank 0, and one comes back to all. A server adds up the payloads in
    worker order, as the simulation does, so that both give the same bits on the same CPU with `threads=1`. Several
    threads, and a GPU, may add up a long vector in another order if their process has no other.

    A rank has whole groups, or a group has several ranks. In the second case a group's first rank averages its
    gradients, exchanges messages with the server and shares both with the others. All keep the group's state.

    timeout: seconds that ranks of a group wait for one another.
    """

    _wire: Any  # a GatherBroadcast, or a ShardedServer

    def __init__(
        self,
        algorithm: Algorithm,
        ids: Sequence[int],
        shares: Sequence[int],
        seed: int,
        participation: Participation | None = None,
        group_size: int = 1,
        timeout: float = 600.0,
    ) -> None:
        super().__init__(algorithm, ids, seed, participation, group_size)
        rank, ranks = dist.get_rank(), range(len(shares))
        self.is_first = rank == 0
        ranks_of_a_group = max(1, len(ranks) * group_size // sum(shares))
        leaders = ranks[::ranks_of_a_group]
        self._groups = {leader: max(1, shares[leader] // group_size) for leader in leaders}  # how many each has
        self._leads, self._inside, between = rank in leaders, None, None
        if ranks_of_a_group > 1:
            within = timedelta(seconds=timeout)
            members = [ranks[leader : leader + ranks_of_a_group] for leader in leaders]
            with convert_collective_errors():  # every rank must make every group
                made = [cast(dist.ProcessGroup, dist.new_group([*one], within)) for one in (*members, leaders)]
            mine = rank // ranks_of_a_group
            self._inside, between = made[mine], made[-1]
            self._shares = [shares[one] for one in members[mine]]
        self._wire = GatherBroadcast(algorithm, seed, between, [*self._groups.values()])

    def start_server(self, x: Tensor) -> ServerState | None:
        return super().start_server(x) if self.is_first else None

    def mean(self, vectors: Tensor) -> Tensor | None:
        if self.is_first:
            return mean_of(self._all_vectors(vectors))
        if self._leads:
            with convert_collective_errors():
                dist.send(vectors.contiguous(), dst=0)
        return None

    def group_mean(self, gradients: Tensor) -> Tensor:
        if self._inside is None:
            return super().group_mean(gradients)
        parts = gather(gradients.contiguous(), gradients.dim() - 2, self._inside, self._shares)
        if parts is None:
            mean = torch.empty_like(gradients[..., 0, :])
        else:
            mean = mean_of(one for part in parts for one in part.unbind(-2))
        with convert_collective_errors():
            dist.broadcast(mean, group=self._inside, group_src=0)
        return mean.unsqueeze(-2)

    def _all_vectors(self, vectors: Tensor) -> Iterator[Tensor]:
        """Yield the vector [*T, d] of each group, in order. Only one rank's are in memory at a time."""
        yield from vectors.unbind(-2)
        for rank, count in [*self._groups.items()][1:]:
            theirs = vectors.new_empty(*vectors.shape[:-2], count, vectors.shape[-1])
            with convert_collective_errors():
                dist.recv(theirs, src=rank)
            yield from theirs.unbind(-2)

    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        self._wire.algorithm = stage
        if self.participation:
            arrivals, ids = self.participation.arrivals(t), iter(range(self.participation.workers))
            self._wire.shares = [sum(i in arrivals for i in islice(ids, count)) for count in self._groups.values()]
        width = stage.message_size(x.shape[-1])
        like = x if width == x.shape[-1] else x.new_zeros(*x.shape[:-1], width)
        check_size(up, x.dim(), stage.uplink, like, t)
        if self._leads:
            down, server = self._wire.exchange(up, server, like, t)
        else:
            down = self._wire.template(like, t)
        return down if self._inside is None else broadcast(down, self._inside), server


class Sharded(Torchrun):
    """Every rank is the server of a part of the coordinates: it gets their shards of n messages, and answers all.

    Numbers and counted bits equal a server's on rank 0, bit for bit. A vector is cut between pieces
    (`algorithms.compressors.shard.piece`), so a vector of a few thousand coordinates has one server.
    """

    def __init__(self, algorithm: Algorithm, ids: Sequence[int], shares: Sequence[int], seed: int, d: int) -> None:
        super().__init__(algorithm, ids, shares, seed)
        self._wire = ShardedServer(GroupedAlgorithms((algorithm,), (d,)), seed, shares=shares)
        [self.cuts], [self._shard] = self._wire.cuts, self._wire.own_shards

    def start_server(self, x: Tensor) -> ServerState | None:
        return self._wire.start_server(x)[0]

    def server_part(self, vectors: Tensor) -> Tensor:
        return vectors[..., self._shard.begin : self._shard.end] if self._shard else vectors[..., :0]

    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        check_size(up, x.dim(), stage.uplink, x, t)
        [down], [server] = self._wire.exchange((up,), [server], x, t)
        return down, server

    def aggregate(self, state: ClusterState) -> Tensor | None:
        own = state.server.aggregate if state.server else self.server_part(state.replica.x)
        sizes = [end - begin for begin, end in pairwise(self.cuts or ())]
        parts = gather(own.contiguous(), own.dim() - 1, None, sizes + [0] * (dist.get_world_size() - len(sizes)))
        return parts if parts is None else torch.cat(parts, -1)
