"""Runs of methods on the references' small problems."""

import math
from collections.abc import Callable, Sequence
from types import ModuleType

import torch
from reference import methods, problem, quantizers
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.core.bit_counter import BitCounter
from algorithms.core.participation import Participation
from algorithms.core.update_rules import Adam
from algorithms.utils.seeding import MessageKey
from experiments.cluster.base import ClusterState, Simulated
from experiments.training.trainer import Trainer

ROUNDS, SEED, LR, N, START = 40, 3, 0.1, problem.WORKERS, problem.START
ADAMW = Adam(form="torch", beta2=0.95, decoupled=True, weight_decay=0.1)


def gradients(state: ClusterState, gradient=problem.gradient, workers: int = N) -> Tensor:
    """∇f_i at every worker's model [W, d]."""
    x = state.replica.x.expand(workers, -1) if state.workers.x is None else state.workers.x
    return torch.tensor([gradient(i, own.tolist()) for i, own in enumerate(x)], dtype=torch.float64)


def states(
    algorithm: Algorithm,
    lr: float | Sequence[float] = LR,
    on: ModuleType = problem,
    rounds: int = ROUNDS,
    start: list[float] | None = None,
    gradient: Callable[[int, list[float]], list[float]] | None = None,
    participation: Participation | None = None,
) -> list[ClusterState]:
    """The states after 0, 1, … rounds on a problem. lr: one step size, or one for each round."""
    algorithm.check(on.D)
    cluster = Simulated(algorithm, on.WORKERS, SEED, participation)
    lrs = [lr] * rounds if isinstance(lr, float) else lr
    found = [cluster.start(torch.tensor(start or on.START, dtype=torch.float64))]
    for t, step_size in enumerate(lrs, 1):
        of_workers = gradients(found[-1], gradient or on.gradient, on.WORKERS)
        found.append(cluster.round(of_workers, found[-1], step_size, t))
    return found


def run(algorithm: Algorithm, lr: float | Sequence[float] = LR, on: ModuleType = problem, **options) -> Tensor:
    """The common x after each round [rounds, d], with the options of `states`."""
    return torch.stack([state.replica.x for state in states(algorithm, lr, on, **options)[1:]])


def row_gradient(i: int, x: list[float], t: int) -> list[float]:
    """∇f_i(x) on worker i's single row in round t."""
    a, y = problem.DATA[i][(3 * t + i) % problem.ROWS]
    slope = -y / (1 + math.exp(y * sum(a[k] * x[k] for k in range(problem.D))))
    return [slope * a[k] + problem.LAMBDA * 2 * x[k] / (1 + x[k] ** 2) ** 2 for k in range(problem.D)]


class Small:
    """The references' problem as a task, with gradients of i, x and t."""

    dtype, device, d = torch.float64, torch.device("cpu"), problem.D

    def __init__(self, gradient: Callable) -> None:
        self.gradient = gradient

    def start(self) -> Tensor:
        return torch.tensor(START, dtype=self.dtype)

    def start_statistics(self) -> Tensor:
        return torch.zeros(N, 0)

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        return self.gradients_at(x.unsqueeze(-2).expand(1, N, self.d), statistics, t)

    def gradients_at(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        found = [self.gradient(i, own.tolist(), t) for i, own in enumerate(x[0])]
        return torch.tensor([found], dtype=self.dtype), statistics

    def full_gradients(self, x: Tensor) -> Tensor:
        return torch.tensor([[problem.gradient(i, x[0].tolist()) for i in range(N)]], dtype=self.dtype)


def train(
    algorithm: Algorithm, gradient: Callable = row_gradient, clip: float | None = None, **options
) -> tuple[Tensor, BitCounter]:
    """The common x after every round of a trainer [rounds, d], and its bits. Options are the cluster's."""
    cluster, path = Simulated(algorithm, N, SEED, **options), []
    trainer = Trainer(Small(gradient), cluster, lrs=[LR], rounds=ROUNDS, clip=clip)
    for _ in range(ROUNDS):
        trainer.step()
        path.append(trainer.state.replica.x[0])
    return torch.stack(path), trainer.meter


def assert_close(one: Tensor, other: Tensor | list, atol: float = 1e-10) -> None:
    torch.testing.assert_close(one, torch.as_tensor(other, dtype=torch.float64), rtol=0, atol=atol)


def uniform(key: MessageKey, d: int = problem.D) -> list[float]:
    """The random numbers that round the message of a key."""
    generator = torch.Generator().manual_seed(key.seeds().item())
    return torch.rand(d, dtype=torch.float64, generator=generator).tolist()


def natural(i: int) -> methods.Drawn:
    """Natural compression of a worker's message, with the random numbers of its key."""
    return lambda x, t: quantizers.natural(x, uniform(MessageKey(SEED, "up", t, (i,)), len(x)))
