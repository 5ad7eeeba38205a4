"""How tasks are tried: built for four workers, near their start."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from experiments.conformance.findings import expect
from experiments.tasks.task import Task

WORKERS, SEED, TRIALS = 4, 5, 3

ROUNDS = (1, 2, 3, 7)
"""Whose gradients are looked at."""

BuildTask = Callable[..., Task]
"""Makes a task, anew at every call, of the keywords `workers`, `seed` and `ids`, which is None for all workers."""


def all_of(build: BuildTask) -> Task:
    """The task with all workers at hand."""
    return build(workers=WORKERS, seed=SEED, ids=None)


def points(task: Task) -> tuple[Tensor, Tensor]:
    """x [T, d] around the start, and the statistics [T, W, b] of workers after a round."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(TRIALS, task.d, generator=random, dtype=torch.float64).to(task.device, task.dtype)
    x = task.start() + 0.1 * noise
    statistics = task.start_statistics().expand(TRIALS, -1, -1).clone()
    return x, task.gradients(x, statistics, 1)[1]


def moved(task: Task, rounds: int, lr: float = 0.1) -> tuple[Tensor, Tensor]:
    """x [1, d] and the statistics after so many rounds of gradient descent."""
    x, statistics = task.start()[None].clone(), task.start_statistics()[None].clone()
    for t in range(1, rounds + 1):
        gradients, statistics = task.gradients(x, statistics, t)
        x = x - lr * gradients.mean(-2)
    return x, statistics


def loss_after(task: Task, lr: float) -> float:
    """train_loss after 20 rounds of gradient descent."""
    x, statistics = moved(task, 20, lr)
    return float(task.evaluate(x, statistics[..., 0, :])["train_loss"][0])


def takes_differences(task: Task) -> bool:
    """Whether `differences` can be had of it."""
    return task.dtype is torch.float64 and task.d <= 256


def is_exact(task: Task) -> bool:
    """Whether every round has the same gradients, and so no batches, and there are no statistics."""
    x, statistics = points(task)
    first = task.gradients(x, statistics, 1)[0]
    return statistics.shape[-1] == 0 and all(torch.equal(task.gradients(x, statistics, t)[0], first) for t in ROUNDS)


def differences(task: Task, x: Tensor, statistics: Tensor) -> Tensor:
    """∇ of train_loss [T, d] at x [T, d] by central differences, all coordinates at once."""
    step = 1e-6
    moves = step * torch.eye(task.d, dtype=x.dtype, device=x.device)

    def losses(x: Tensor, statistics: Tensor) -> Tensor:
        return task.evaluate(x, statistics.expand(task.d, -1))["train_loss"]

    rows = [losses(row + moves, own) - losses(row - moves, own) for row, own in zip(x, statistics, strict=True)]
    return torch.stack(rows).to(x.dtype) / (2 * step)


def expect_form(tensor: Tensor, shape: tuple[int, ...], task: Task, what: str) -> None:
    """Raise Violation unless a tensor has this shape, the task's dtype and finite numbers alone."""
    form = (tuple(shape), task.dtype)
    expect((tuple(tensor.shape), tensor.dtype) == form, f"{what} {form}", (tuple(tensor.shape), tensor.dtype))
    expect(tensor.isfinite().all(), f"{what} to be finite", tensor[~tensor.isfinite()][:1].tolist())
