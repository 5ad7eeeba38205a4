"""Rounds of an algorithm for this process's workers, and a simulation of all n workers and the server."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from algorithms.compressors import Payload
from algorithms.core.aggregation import mean_of_stacked
from algorithms.core.algorithm import Algorithm, ReplicaState, Sent, ServerState, Stage, WorkerState
from algorithms.core.participation import Participation
from experiments.cluster.partial import QueuedWorkers, send_some


@dataclass
class ClusterState:
    """Everything of this process that changes from round to round."""

    workers: WorkerState
    server: ServerState | None  # None in a process that is not the server
    replica: ReplicaState


class Cluster(ABC):
    """n workers and a server. This process has the workers `ids`, and the server, a part of it, or none.

    is_first: whether this process measures. cuts: 0, …, d, the bounds of the server's parts. Each of the first
    processes has one part. None if one process has the whole server.
    participation: which groups send in a round; None: all of them.

    group_size: how many neighbouring workers form a group. They average their gradients uncompressed. To the
    algorithm a group is one worker. With 1 every worker is a group.
    """

    is_first = True
    cuts: tuple[int, ...] | None = None

    def __init__(
        self,
        algorithm: Algorithm,
        ids: Sequence[int],
        seed: int,
        participation: Participation | None = None,
        group_size: int = 1,
    ) -> None:
        self.algorithm, self.ids, self.seed = algorithm, ids, seed
        self.participation, self.group_size = participation, group_size
        self._sender = self._receiver = algorithm  # at the workers and the server, and at the replicas
        self._waits = participation.exchange_delays(algorithm) if participation else {}

    @property
    def groups(self) -> range:
        """The numbers of the groups of this process's workers: the algorithm's workers."""
        return range(self.ids[0] // self.group_size, self.ids[-1] // self.group_size + 1)

    def start(self, x: Tensor) -> ClusterState:
        """The state before round 1, for parameters x [*T, d]."""
        workers = self._sender.start_workers(x, torch.tensor(self.groups))
        if self._waits:
            size = max(self._waits.values()) * self.algorithm.uplink.payload_bytes(x.shape[-1], 1, x.dtype)
            queue = x.new_zeros(*x.shape[:-1], len(self.groups), size, dtype=torch.uint8)
            workers = QueuedWorkers(**vars(workers), queue=queue)
        return ClusterState(workers, server=self.start_server(x), replica=self._sender.start_replica(x))

    def start_server(self, x: Tensor) -> ServerState | None:
        """Return this process's part of the server's state before round 1, for parameters x [*T, d]."""
        return self._sender.start_server(x)

    def server_part(self, vectors: Tensor) -> Tensor:
        """Return the coordinates of vectors [*T, d] for which this process is the server."""
        return vectors

    def group_mean(self, gradients: Tensor) -> Tensor:
        """Average the gradients [*T, W, d] of this process's workers in each group, in worker order: [*T, G, d].

        Raises LostContact.
        """
        if self.group_size == 1:
            return gradients
        return torch.stack([mean_of_stacked(group) for group in gradients.split(self.group_size, -2)], -2)

    def models_of_workers(self, models: Tensor) -> Tensor:
        """Each group's model [*T, G, d] for all of its workers: [*T, W, d]."""
        if self.group_size == 1:
            return models
        return models.repeat_interleave(len(self.ids) // len(self.groups), -2)

    def round(self, gradients: Tensor, state: ClusterState, lr: float | Tensor, t: int) -> ClusterState:
        """Return the state after round t (from 1) with the gradients [*T, G, d] of this process's groups.

        `state` itself is not changed. Raises LostContact if another process is gone.
        """
        gradients = gradients.contiguous()  # a sum's last bit depends on how its terms lie in memory
        workers, server, replica = state.workers, state.server, state.replica
        workers = self._sender.local_step(gradients, workers, replica, lr, t)
        crossed = False
        for stage, at_replicas in zip(self._sender.stages(t, lr), self._receiver.stages(t, lr), strict=True):
            up, workers = self._send(stage, gradients, workers, replica, lr, t)
            if self.participation and self.participation.is_silent(stage.uplink, t):
                continue
            if self.participation:
                stage = self.participation.with_server_mean(stage, replica.x, t)
            down, server = self._exchange(stage, up, server, replica.x, t)
            replica, crossed = at_replicas.replica(down, replica, lr, t), True
        if crossed:
            workers = self._sender.sync_workers(workers, replica, t)
        return ClusterState(workers, server, replica)

    def _send(
        self, stage: Stage, gradients: Tensor, workers: WorkerState, replica: ReplicaState, lr: float | Tensor, t: int
    ) -> Sent:
        """Return this process's messages that reach the server in round t, and its workers after they sent."""

        def send(gradients: Tensor, workers: WorkerState) -> Sent:
            return stage.worker(gradients, workers, replica, lr, t, self.seed)

        if self.participation is None:
            return send(gradients, workers)
        arrivals = {i: self._waits.get(i, 0) for i in self.participation.arrivals(t)}
        return send_some(send, gradients, workers, self.participation.senders(t), arrivals)

    def model(self, state: ClusterState) -> Tensor | None:
        """Return the measured model [*T, d]; None if only the first process knows it. Raises LostContact."""
        if self.algorithm.has_common_model:
            return state.replica.x
        assert state.workers.x is not None
        return self.mean(state.workers.x)

    @abstractmethod
    def mean(self, vectors: Tensor) -> Tensor | None:
        """Return the mean [*T, d] over all groups of vectors [*T, G, d]; None if this process is not the first.

        It is only for measurements, and counts as no communication. Raises LostContact.
        """

    def aggregate(self, state: ClusterState) -> Tensor | None:
        """Return ĝ [*T, d] for measurements; None if this process is not the first. All processes call this."""
        return state.server.aggregate if state.server else None

    @abstractmethod
    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState | None]:
        """Exchange messages with the server. Return its message and its new state."""


class Simulated(Cluster):
    """A cluster whose worker axis holds all n workers, on the dense path."""

    def __init__(
        self,
        algorithm: Algorithm,
        workers: int,
        seed: int,
        participation: Participation | None = None,
        group_size: int = 1,
    ) -> None:
        super().__init__(algorithm, range(workers), seed, participation, group_size)
        self._sender = self._receiver = algorithm.without_packing()
        if self._waits:  # queues hold packed messages
            self._sender = replace(self._sender, uplink=algorithm.uplink)

    def mean(self, vectors: Tensor) -> Tensor:
        return mean_of_stacked(vectors)

    def _exchange(
        self, stage: Stage, up: Payload, server: ServerState | None, x: Tensor, t: int
    ) -> tuple[Payload, ServerState]:
        assert server is not None  # it is here
        return stage.server(up, server, t, self.seed)
