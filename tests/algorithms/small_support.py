"""Runs of methods on the small problems of the references."""

from collections.abc import Callable, Sequence
from types import ModuleType

import torch
from reference import methods, problem, quantizers
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.core.participation import Participation
from algorithms.core.update_rules import Adam
from algorithms.utils.seeding import MessageKey
from experiments.cluster.base import ClusterState, Simulated

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
    """The states after 0, 1, … rounds on a problem; with a step size a round where there are several."""
    algorithm.check(on.D)
    cluster = Simulated(algorithm, on.WORKERS, SEED, participation)
    lrs = [lr] * rounds if isinstance(lr, float) else lr
    found = [cluster.start(torch.tensor(start or on.START, dtype=torch.float64))]
    for t, step_size in enumerate(lrs, 1):
        of_workers = gradients(found[-1], gradient or on.gradient, on.WORKERS)
        found.append(cluster.round(of_workers, found[-1], step_size, t))
    return found


def run(algorithm: Algorithm, lr: float | Sequence[float] = LR, on: ModuleType = problem, **options) -> Tensor:
    """The common x after each round [rounds, d]; options as `states` has them."""
    return torch.stack([state.replica.x for state in states(algorithm, lr, on, **options)[1:]])


def assert_close(one: Tensor, other: Tensor | list, atol: float = 1e-10) -> None:
    torch.testing.assert_close(one, torch.as_tensor(other, dtype=torch.float64), rtol=0, atol=atol)


def natural(i: int) -> methods.Drawn:
    """Natural compression of a worker's message, with the numbers that its key gives."""

    def compress(x: list[float], t: int) -> list[float]:
        generator = torch.Generator().manual_seed(MessageKey(SEED, "up", t, (i,)).seeds().item())
        return quantizers.natural(x, torch.rand(len(x), dtype=torch.float64, generator=generator).tolist())

    return compress
