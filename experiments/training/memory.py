"""What would fit where memory did not suffice."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from common.errors import RunError
from experiments.training.trainer import Trainer

_VECTORS_PER_WORKER = 4  # memory and gradient, and what a message is made of meanwhile
_VECTORS_PER_REPLICA = 10  # model, signal, moments, aggregate, the server's memory, and their successors


def vectors(d: int, dtype: torch.dtype, trials: int, workers: int) -> int:
    """About how many bytes the vectors of a process with so many workers take; data and activations come on top."""
    return d * dtype.itemsize * trials * (workers * _VECTORS_PER_WORKER + _VECTORS_PER_REPLICA)


@contextmanager
def explained(trainer: Trainer | None = None) -> Iterator[None]:
    """Turn an allocation that failed into a RunError that says what the run holds and what would fit.

    Without a trainer it is one that was still being built.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # On a CPU torch raises a RuntimeError with this text.
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and "can't allocate memory" not in str(error):
            raise
        raise RunError(_advice(trainer)) from error


def _advice(trainer: Trainer | None) -> str:
    if trainer is None:
        return (
            "out of memory while data and model were being loaded: free the device of other programs, take "
            "device=cpu, or a smaller task"
        )
    task, workers, trials = trainer.task, len(trainer.cluster.ids), len(trainer.lrs)
    held = vectors(task.d, task.dtype, trials, workers) / 2**30
    alone = vectors(task.d, task.dtype, 1, 1) / 2**30
    return (
        f"round {trainer.t + 1}: out of memory on {task.device}: the vectors of {workers} workers and {trials} step "
        f"sizes take about {held:.2g} GiB here, of one worker and step size {alone:.2g} GiB; the rest is a batch's "
        "activations. What needs less: a smaller task.batch_size or task.evaluation_batch, fewer step sizes at a "
        "time, fewer workers a rank, on more GPUs or machines. The last checkpoint is kept; more ranks go on from "
        "it, other settings are another run"
    )
