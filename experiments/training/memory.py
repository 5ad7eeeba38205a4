"""How much memory the vectors of a run take: before it begins, and where it did not suffice."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from algorithms.compressors import Identity
from common.errors import RunError
from data.limits import check_memory, in_words
from experiments.cluster.base import Cluster
from experiments.tasks.task import Task
from experiments.training.trainer import Trainer, state_vectors


def vectors(cluster: Cluster, d: int, dtype: torch.dtype, trials: int) -> int:
    """Bytes of vectors that a process holds at once in a round, at the least.

    They are its state before the round and after it, [*T, W, d] of gradients, twice that where the method looks back,
    as much of messages where those are something else, and what arrives of all workers' where it serves several
    processes. What is formed on the way is not counted, three vectors [*T, d] or so, nor is the task's data.
    """
    # Shapes without memory behind them.
    state = cluster.start(torch.empty(trials, d, dtype=dtype, device="meta"))
    gradients = trials * len(cluster.ids) * d * dtype.itemsize
    is_compressed = not isinstance(cluster.algorithm.uplink.compressor, Identity)
    remains = sum(tensor.nbytes for _, tensor in state_vectors(state) if tensor.is_floating_point())
    held = 2 * remains + gradients * (1 + is_compressed + cluster.algorithm.looks_back)
    return held + cluster.arriving(d, dtype, trials)


def check_room(cluster: Cluster, task: Task, trials: int, processes: int = 1) -> None:
    """Raise DataError where the vectors of a run take more memory than is free beside the data of its task, with so
    many processes like this one on the machine.

    Only on a CPU: a GPU says so at once, and `explain_out_of_memory` says what would fit.
    """
    if torch.device(task.device).type != "cpu":
        return
    workers = len(cluster.ids)
    data = f", beside {in_words(task.nbytes(workers))} of data" if hasattr(task, "nbytes") else ""
    several = f", in {processes} processes," if processes > 1 else ","
    check_memory(
        processes * vectors(cluster, task.d, task.dtype, trials),
        f"a round of {workers} workers and {trials} step sizes with vectors of {task.d} numbers{data}{several}",
        "take fewer step sizes at a time, fewer workers a process (cluster.workers, or more ranks on more machines), "
        "or a machine with more",
    )


@contextmanager
def explain_out_of_memory(trainer: Trainer | None = None) -> Iterator[None]:
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
    held = vectors(trainer.cluster, task.d, task.dtype, trials) / 2**30
    return (
        f"round {trainer.t + 1}: out of memory on {task.device}: the vectors of {workers} workers and {trials} step "
        f"sizes take about {held:.2g} GiB here, the rest is a batch's activations. "
        "What needs less: a smaller task.batch_size or task.evaluation_batch, fewer step sizes at a "
        "time, fewer workers a rank, on more GPUs or machines. The last checkpoint is kept; more ranks go on from "
        "it, other settings are another run"
    )
