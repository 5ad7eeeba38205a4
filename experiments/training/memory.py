"""Memory of a process that trains."""

import ctypes
import sys

import torch

from algorithms.compressors import Identity
from data.limits import check_memory
from experiments.cluster.base import Cluster
from experiments.tasks.task import Task
from experiments.training.trainer import state_vectors

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # mallopt(3)


def check_room(cluster: Cluster, task: Task, trials: int, processes: int) -> None:
    """Raise DataError where the vectors of a round take more memory than is free, with so many processes like this
    one on the machine: the states before and after it, gradients, and messages where those are something else.

    Only on a CPU: a GPU says so at once.
    """
    if task.device.type != "cpu":
        return
    workers = len(cluster.ids)
    state = cluster.start(torch.empty(trials, task.d, dtype=task.dtype, device="meta"))  # no memory behind it
    states = 2 * sum(tensor.nbytes for _, tensor in state_vectors(state) if tensor.is_floating_point())
    is_compressed = not isinstance(cluster.algorithm.uplink.compressor, Identity)
    others = 1 + is_compressed + cluster.algorithm.looks_back  # times [*T, W, d]
    check_memory(
        processes * (states + others * trials * workers * task.d * task.dtype.itemsize),
        f"a round of {workers} workers and {trials} step sizes with vectors of {task.d} numbers, in {processes} "
        f"process{'es' * (processes > 1)},",
        "take fewer step sizes at a time, fewer workers a process (cluster.workers, or more ranks on more machines), "
        "or a machine with more",
    )


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for what is asked for next, for the rest of the process.

    By default every vector beyond 32 MiB comes from the system anew, which zeroes its pages one fault at a time: with
    the vectors of a large network that takes longer than to compute with them.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
