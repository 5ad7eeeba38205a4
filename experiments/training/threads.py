"""The default number of torch threads of a run on the CPU."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from experiments.config.schema import RunConfig
from experiments.training.trainer import Trainer

SMALL = 2**21
"""Rounds with fewer numbers in the workers' gradients, step sizes · n · d, have one thread, because threads meet at
the end of every operation (docs/running.md). Load thus changes no order of a sum in these."""

SHARE = "EXPERIMENTS_CORES"
"""The environment variable by which a sweep gives each of its processes a number of cores."""


def cores() -> int:
    """Count the cores that this process may use."""
    from joblib import cpu_count  # here alone: it takes a tenth of a second, and small runs do not ask

    return cpu_count()


def is_set_by_user(environment: Mapping[str, str]) -> bool:
    """Whether the user, and not a sweep, has set OMP_NUM_THREADS. Runs then keep to it."""
    return "OMP_NUM_THREADS" in environment and SHARE not in environment


@contextmanager
def set_threads(run: RunConfig, trainer: Trainer) -> Iterator[None]:
    """Set the number of threads for a run's size in the with-block, and restore it afterwards.

    It changes nothing on a GPU, or if the run or the user sets the number of threads.
    """
    if run.threads is not None or is_set_by_user(os.environ) or trainer.task.device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    numbers = len(run.lr) * run.cluster.workers * trainer.task.d
    torch.set_num_threads(int(os.environ.get(SHARE) or cores()) if numbers >= SMALL else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
