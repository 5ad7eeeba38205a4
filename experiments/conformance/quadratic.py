"""A small problem on which methods are tried, simulated and as two ranks would run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.compressors import Payload
from algorithms.protocol import Algorithm, ReplicaState, ServerState, WorkerState
from algorithms.randomness import Key
from algorithms.wire import from_bytes, to_bytes
from experiments.cluster.base import ClusterState
from experiments.cluster.simulated import Simulated

D, WORKERS, SEED = 12, 4, 3
LRS = (0.02, 0.1)

Gradients = Callable[[Tensor], Tensor]
"""∇f_i of all workers [*T, W, d] at x [*T, d]."""

_random = torch.Generator().manual_seed(0)
_CURVATURES = torch.linspace(0.5, 2, D, dtype=torch.float64)
# No coordinate of x₁ is near its best: methods that freeze a second moment would take wild steps there ever after.
_CENTRES = torch.randn(D, dtype=torch.float64, generator=_random).sign() + 0.1 * torch.randn(
    WORKERS, D, dtype=torch.float64, generator=_random
)


def quadratic(x: Tensor) -> Tensor:
    """∇f_i(x) = a·(x − b_i), a between 1/2 and 2 and the b_i near one another."""
    return (_CURVATURES * (x.double().unsqueeze(-2) - _CENTRES)).to(x.dtype)


def excess(x: Tensor) -> Tensor:
    """f(x) − min f of the mean of these f_i: [*T]."""
    return (_CURVATURES * (x.double() - _CENTRES.mean(0)) ** 2).sum(-1) / 2


def flat(x: Tensor) -> Tensor:
    """Gradients of nothing at all."""
    return torch.zeros_like(x).unsqueeze(-2).expand(*x.shape[:-1], WORKERS, D).contiguous()


def start(trials: int = len(LRS), dtype: torch.dtype = torch.float64) -> Tensor:
    """x₁ [trials, d]: 1/2 everywhere, which those that send weights, quantized by their largest, send exactly."""
    return torch.full((trials, D), 0.5, dtype=dtype)


def column(lrs: tuple[float, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    """Step sizes of trials, [T, 1]."""
    return torch.tensor(lrs, dtype=dtype).unsqueeze(-1)


def simulated(
    algorithm: Algorithm,
    rounds: int,
    gradients: Gradients = quadratic,
    lrs: tuple[float, ...] = LRS,
    dtype: torch.dtype = torch.float64,
) -> list[ClusterState]:
    """The states after 0, 1, …, `rounds` rounds, all workers in one process."""
    cluster = Simulated(algorithm, WORKERS, SEED)
    states = [cluster.start(start(len(lrs), dtype))]
    for t in range(1, rounds + 1):
        states.append(cluster.round(gradients(states[-1].replica.x), states[-1], column(lrs, dtype), t))
    return states


@dataclass
class Rank:
    """A process with some of the workers; the first is the server too."""

    algorithm: Algorithm
    workers: WorkerState
    replica: ReplicaState


class Parted:
    """Two ranks, both in this process: whatever goes from one to the other is bytes, as over a process group.

    Each has an algorithm object of its own, so that nothing else goes from one to the other.
    """

    def __init__(self, build: Callable[[], Algorithm], x: Tensor) -> None:
        self._share = WORKERS // 2
        self.ranks = []
        for begin in (0, self._share):
            algorithm = build()
            ids = torch.arange(begin, begin + self._share)
            self.ranks.append(Rank(algorithm, algorithm.start_workers(x, ids), algorithm.start_replica(x)))
        self.server: ServerState = self.ranks[0].algorithm.start_server(x)
        self.up: Payload = ()
        self.down: Payload = ()

    def round(self, gradients: Tensor, lr: Tensor, t: int) -> None:
        """Round t with the gradients [T, W, d] of all workers; `up` and `down` are then what was sent."""
        messages = []
        for rank, own in zip(self.ranks, gradients.split(self._share, -2), strict=True):
            payload, rank.workers = rank.algorithm.worker(own.contiguous(), rank.workers, rank.replica, lr, t, SEED)
            messages.append(to_bytes(payload, 2))
        self.up = from_bytes(torch.cat(messages, 1), payload, 2)
        first = self.ranks[0].algorithm
        self.down, self.server = first.server(self.up, self.server, t, SEED)
        message = to_bytes(self.down, 1)
        for rank in self.ranks:
            like = rank.algorithm.downlink.codec(t).encode(torch.zeros_like(rank.replica.x), Key.none())
            rank.replica = rank.algorithm.replica(from_bytes(message, like, 1), rank.replica, lr, t)
