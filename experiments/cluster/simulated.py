"""All n workers and the server in one process, on the dense path."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

import torch
from torch import Tensor

from algorithms.protocol import Algorithm, ReplicaState, ServerState, WorkerState
from algorithms.updates import Moments


@dataclass
class ClusterState:
    """Everything that changes from round to round."""

    workers: WorkerState
    server: ServerState
    replica: ReplicaState

    def state_dict(self) -> dict:
        """Nested dicts of the tensors themselves, not copies: no function of a round changes one in place."""
        return _shallow(self)

    @classmethod
    def from_state_dict(cls, state: dict) -> ClusterState:
        """The state that `state_dict` described."""
        replica = {**state["replica"], "moments": Moments(**state["replica"]["moments"])}
        workers = {**state["workers"], "moments": Moments(**state["workers"]["moments"])}
        return cls(WorkerState(**workers), ServerState(**state["server"]), ReplicaState(**replica))


class Simulated:
    """A cluster whose worker axis holds all n workers."""

    def __init__(self, algorithm: Algorithm, workers: int, seed: int) -> None:
        self.algorithm = algorithm.unpacked()
        self.workers = workers
        self.seed = seed

    def start(self, x: Tensor) -> ClusterState:
        """The state before round 1, for parameters x [*T, d]."""
        return ClusterState(
            workers=self.algorithm.start_workers(x, torch.arange(self.workers)),
            server=self.algorithm.start_server(x),
            replica=self.algorithm.start_replica(x),
        )

    def round(self, gradients: Tensor, state: ClusterState, lr: float | Tensor, t: int) -> ClusterState:
        """Round t (from 1) with all workers' gradients [*T, n, d]; `state` itself is left as it was."""
        up, workers = self.algorithm.worker(gradients, state.workers, state.replica, lr, t, self.seed)
        down, server = self.algorithm.server(up, state.server, t, self.seed)
        replica = self.algorithm.replica(down, state.replica, lr, t)
        return ClusterState(workers, server, replica)


def _shallow(node: object) -> object:
    if not is_dataclass(node):
        return node
    return {field.name: _shallow(getattr(node, field.name)) for field in fields(node)}
