"""A small network with separate data for every worker, what the harness counts, and states read from a file."""

from io import BytesIO
from typing import Any

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from algorithms.core.algorithm import Algorithm
from algorithms.core.bit_counter import BitCounter


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
    """A copy of its parameters [32]."""
    return parameters_to_vector(net.parameters()).detach().clone()


def gradients(x: torch.Tensor, workers: int, step: int = 1) -> torch.Tensor:
    """The gradients of all workers' losses [workers, 32] at x [32]."""
    net = network(dtype=x.dtype)
    vector_to_parameters(x.clone(), net.parameters())
    params = list(net.parameters())
    return torch.stack([
        parameters_to_vector(torch.autograd.grad(loss(net, worker, step), params)) for worker in range(workers)
    ])  # fmt: skip


def counted(algorithm: Algorithm, d: int, rounds: int, dtype: torch.dtype = torch.float32) -> BitCounter:
    """The bits and bytes of so many rounds on vectors [d]."""
    meter = BitCounter()
    for t in range(1, rounds + 1):
        meter.count(algorithm, d, t, dtype)
    return meter


def from_file(state: Any) -> Any:
    """Write a state to a file and read it back."""
    file = BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)
