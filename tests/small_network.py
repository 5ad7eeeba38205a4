"""A small network with its own data for every worker, bits counted by the harness, and states read from a file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from algorithms.core.algorithm import Algorithm
from algorithms.core.bit_counter import BitCounter
from experiments.cluster.base import Simulated

LR = 0.05

Gradients = Callable[[torch.Tensor, int, int], torch.Tensor]
"""Gradients of all workers at x in a step."""


def network(seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """32 parameters in four tensors."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).to(dtype)


def loss(net: torch.nn.Module, worker: int, step: int = 1) -> torch.Tensor:
    """The loss of a worker's own batch."""
    generator, dtype = torch.Generator().manual_seed(100 * step + worker), next(net.parameters()).dtype
    inputs, targets = (torch.randn(6, k, generator=generator, dtype=torch.float64).to(dtype) for k in (3, 2))
    return (net(inputs) - targets).square().mean()


def vector(net: torch.nn.Module) -> torch.Tensor:
    """A copy of the network's parameters [32]."""
    return parameters_to_vector(net.parameters()).detach().clone()


def gradients(x: torch.Tensor, workers: int, step: int = 1) -> torch.Tensor:
    """The gradients of all workers' losses [workers, 32] at x [32]."""
    net = network(dtype=x.dtype)
    vector_to_parameters(x.clone(), net.parameters())
    params = list(net.parameters())
    return torch.stack([
        parameters_to_vector(torch.autograd.grad(loss(net, worker, step), params)) for worker in range(workers)
    ])  # fmt: skip


def simulate(
    algorithm: Algorithm,
    workers: int,
    steps: int,
    left_out: int | None = None,
    dtype: torch.dtype = torch.float32,
    gradients: Gradients = gradients,
) -> torch.Tensor:
    """x after every step [steps, 32] of the harness's rounds. One step may be left out."""
    cluster, path = Simulated(algorithm, workers, seed=3), []
    state, t = cluster.start(vector(network(dtype=dtype))), 0
    for step in range(1, steps + 1):
        if step != left_out:
            t += 1
            state = cluster.round(gradients(state.replica.x, workers, step), state, LR, t)
        path.append(state.replica.x)
    return torch.stack(path)


def simulate_local(method: Algorithm, workers: int, steps: int, gradients: Gradients) -> torch.Tensor:
    """Every worker's model after every step [steps, workers, 32] of the harness's rounds, in float64."""
    cluster, path = Simulated(method, workers, seed=3), []
    state = cluster.start(vector(network(dtype=torch.float64)))
    for t in range(1, steps + 1):
        each = [gradients(x, workers, t)[worker] for worker, x in enumerate(state.workers.x)]
        state = cluster.round(torch.stack(each), state, LR, t)
        path.append(state.workers.x)
    return torch.stack(path)


def train(
    net: torch.nn.Module,
    *optimizers: torch.optim.Optimizer,
    steps: int,
    worker: int = 0,
    first: int | None = None,
    befalls: Callable[[int], object] = bool,
) -> torch.Tensor:
    """x after every step [steps, 32] on one batch of a worker, or on its batches from number `first` on.

    befalls: called between the backward pass and a step, with the step's number from 0.
    """
    path = []
    for step in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss(net, worker, 1 if first is None else first + step).backward()
        befalls(step)
        for optimizer in optimizers:
            optimizer.step()
        path.append(vector(net))
    return torch.stack(path)


def count_bits(algorithm: Algorithm, d: int, rounds: int, dtype: torch.dtype = torch.float32) -> BitCounter:
    """Count the bits and bytes of `rounds` rounds on vectors [d]."""
    meter = BitCounter()
    for t in range(1, rounds + 1):
        meter.count(algorithm, d, t, dtype)
    return meter


@contextmanager
def group_of_one() -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def from_file(state: Any) -> Any:
    """Write a state to a file and read it back."""
    file = BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)
