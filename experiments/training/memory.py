"""How much memory the vectors of a run take, before it begins."""

import torch

from algorithms.compressors import Identity
from data.limits import check_memory, in_words
from experiments.cluster.base import Cluster
from experiments.tasks.task import Task
from experiments.training.trainer import state_vectors


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

    Only on a CPU: a GPU says so at once.
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
