"""How many threads of torch a run on the CPU computes with, where nobody said."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from experiments.config.schema import RunConfig
from experiments.training.trainer import Trainer

SMALL = 2**21
"""Numbers in the workers' gradients of one round, step sizes · n · d, below which a round has one thread, since
threads meet at the end of every operation (docs/running.md). Load thus changes no order of a sum in these."""

SHARE = "EXPERIMENTS_CORES"
"""The variable by which a sweep tells each of its processes how many cores are its own."""


def cores() -> int:
    """The cores that this process may use."""
    from joblib import cpu_count  # here alone: it takes a tenth of a second, and small runs do not ask

    return cpu_count()


def is_set_by_user(environment: Mapping[str, str]) -> bool:
    """Whether the user, and not a sweep, has set OMP_NUM_THREADS. Runs then keep to it."""
    return "OMP_NUM_THREADS" in environment and SHARE not in environment


@contextmanager
def set_threads(run: RunConfig, trainer: Trainer) -> Iterator[None]:
    """Compute within with as many threads as the run's size asks for, and afterwards with those of before.

    A run on a GPU is left as it is, and so is one that says how many threads it has.
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
