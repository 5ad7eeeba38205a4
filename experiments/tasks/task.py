"""The interface of tasks."""

from collections.abc import Callable
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.utils.layout import Layout, vector_layout
from plots.runs.columns import Column


class Task(Protocol):
    """f(x) = mean_i f_i(x) over n workers. This process has W of them.

    Vectors have d coordinates in `dtype` and are on `device`. Each worker's statistics besides the model, such as
    batch norm's, are arguments and results [*T, W, b], where b may be 0.

    A task is built with its options and `workers` (n), `seed`, `ids` (the numbers of this process's workers, None for
    all) and, if it has such a parameter, `device`.
    """

    devices: ClassVar[tuple[str, ...]]  # that it can run on: cpu, cuda or both
    metric: ClassVar[str]  # the column that selects the best step size
    columns: ClassVar[tuple[Column, ...]]  # that `evaluate` fills

    dtype: torch.dtype
    device: torch.device
    d: int
    workers: int  # n
    rows: int  # of a worker
    batch_size: int | None  # rows of a worker in a round; None: all
    evaluated: int  # rows that go forward and backward in an evaluation; without it a long one is timed
    sizes: tuple[int, ...]  # of the parameter tensors, d in all: the blocks of a layer-wise compressor
    layout: Layout  # of these tensors, with shapes and roles; without it all are vectors

    def start(self) -> Tensor:
        """x₁ [d]."""
        ...

    def start_statistics(self) -> Tensor:
        """The statistics [W, b] of this process's workers before round 1."""
        ...

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """∇f_i(x) [*T, W, d] of this process's workers at x [*T, d] in round t (from 1), and their new statistics."""
        ...

    gradients_at: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
    """`gradients` with one model per worker: x [T, W, d]. Methods with local steps need it."""

    full_gradients: Callable[[Tensor], Tensor]
    """∇f_i(x) [*T, W, d] over all rows of each worker, at x [*T, d]. VR-MARINA needs it."""

    def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        """Return the columns by name, each [*T], at x [*T, d] with worker 0's statistics [*T, b]."""
        ...

    def epoch(self, t: int) -> float:
        """Passes over the training data after t rounds."""
        ...

    def step_unit(self, algorithm: Algorithm) -> float:
        """Return the step size that lr=1 stands for."""
        ...

    def facts(self) -> dict[str, object]:
        """Return facts on the data and their partition, as plain values for the record. All but `device` are the same
        on all ranks."""
        ...


def layout_of(task: Task) -> Layout:
    """The parameter tensors of a task."""
    return task.layout if hasattr(task, "layout") else vector_layout(task.sizes)
