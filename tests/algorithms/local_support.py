"""Runs of methods with local steps on the small logistic regression of the references."""

import torch
from reference import problem

from algorithms.core.algorithm import Algorithm
from algorithms.core.update_rules import Adam
from experiments.cluster.base import ClusterState
from experiments.cluster.simulated import Simulated

ROUNDS, SEED, LR, N = 60, 3, 0.1, problem.WORKERS
START = [0.1] * problem.D
ADAMW = Adam(form="torch", beta2=0.95, decoupled=True, weight_decay=0.1)


def gradients(state: ClusterState, alike: bool = False) -> torch.Tensor:
    """∇f_i at every worker's model [W, d]; `alike`: of f_0 for all."""
    x = state.replica.x.expand(N, -1) if state.workers.x is None else state.workers.x
    found = [problem.gradient(0 if alike else i, own.tolist()) for i, own in enumerate(x)]
    return torch.tensor(found, dtype=torch.float64)


def states(algorithm: Algorithm, lr: float = LR, alike: bool = False) -> list[ClusterState]:
    """The states after 0, 1, …, 60 rounds."""
    cluster = Simulated(algorithm, N, SEED)
    found = [cluster.start(torch.tensor(START, dtype=torch.float64))]
    for t in range(1, ROUNDS + 1):
        found.append(cluster.round(gradients(found[-1], alike), found[-1], lr, t))
    return found


def run(algorithm: Algorithm, lr: float = LR, alike: bool = False) -> torch.Tensor:
    """The common x after each of 60 rounds [60, d]."""
    return torch.stack([state.replica.x for state in states(algorithm, lr, alike)[1:]])


def assert_close(one: torch.Tensor, other: torch.Tensor, atol: float) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=atol)
