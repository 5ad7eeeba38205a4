"""What a run asks of a task."""

from collections.abc import Callable
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.utils.layout import Layout, vector_layout
from plots.runs.columns import Column


class Task(Protocol):
    """f(x) = mean_i f_i(x) over n workers, of which this process has some: W of them.

    Vectors have d coordinates in `dtype` and lie on `device`. What a task keeps for each worker besides the model,
    such as batch-norm statistics, is explicit: it is handed in and out, [*T, W, b], where b may be 0.

    It is built with its options and `workers` (n), `seed`, `ids` (the numbers of this process's workers, None for
    all) and, where it has such a parameter, `device`.
    """

    devices: ClassVar[tuple[str, ...]]  # of cpu and cuda, those it can run on
    metric: ClassVar[str]  # of the columns that by which the best step size is chosen; lower is better
    columns: ClassVar[tuple[Column, ...]]  # that `evaluate` fills

    dtype: torch.dtype
    device: torch.device
    d: int
    workers: int  # n
    rows: int  # of a worker
    batch_size: int | None  # rows of a worker in a round; None: all
    evaluated: int  # rows that go forward and backward in an evaluation; without it a long one is measured
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
    """As `gradients`, of every worker at a model of its own: x [T, W, d]. A task without it has no local steps."""

    full_gradients: Callable[[Tensor], Tensor]
    """∇f_i(x) [*T, W, d] over all rows of each worker, at x [*T, d]. A task without it has no VR-MARINA."""

    def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        """The columns by name, each [*T], at x [*T, d] with worker 0's statistics [*T, b]."""
        ...

    def epoch(self, t: int) -> float:
        """Passes over the training data after t rounds."""
        ...

    def step_unit(self, algorithm: Algorithm) -> float:
        """What a step size of 1 in the configuration stands for."""
        ...

    def facts(self) -> dict[str, object]:
        """What the data are and how they were shared, as plain values for the record, but for `device` alike on all
        ranks."""
        ...


def layout_of(task: Task) -> Layout:
    """The parameter tensors of a task."""
    return task.layout if hasattr(task, "layout") else vector_layout(task.sizes)
