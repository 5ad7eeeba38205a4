"""Runs of methods on the small logistic regression of the references."""

from collections.abc import Callable

import torch
from reference import problem
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from experiments.cluster.simulated import Simulated

ROUNDS, SEED, LR, N = 60, 3, 0.1, problem.WORKERS
START = [0.1] * problem.D


def gradients(x: Tensor) -> Tensor:
    """∇f_i for parameters [d]: [W, d]."""
    return torch.tensor([problem.gradient(i, x.tolist()) for i in range(N)], dtype=x.dtype)


def run(
    algorithm: Algorithm,
    of: Callable[[Tensor], Tensor] = gradients,
    workers: int = N,
    lr: float = LR,
    rounds: int = ROUNDS,
) -> Tensor:
    """x after each round [rounds, d]."""
    cluster = Simulated(algorithm, workers, SEED)
    state, path = cluster.start(torch.tensor(START, dtype=torch.float64)), []
    for t in range(1, rounds + 1):
        state = cluster.round(of(state.replica.x), state, lr, t)
        path.append(state.replica.x)
    return torch.stack(path)


def assert_close(one: Tensor, other: Tensor, atol: float) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=atol)


def assert_follows(algorithm: Algorithm, expected: list[list[float]], lr: float = LR) -> None:
    """It comes to the points of a plain loop."""
    assert_close(run(algorithm, lr=lr), torch.tensor(expected, dtype=torch.float64), 1e-10)
