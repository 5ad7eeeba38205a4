"""How many threads of torch a run on the CPU computes with, where nobody said."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from joblib import cpu_count as cores

from experiments.config.schema import RunConfig
from experiments.training.trainer import Trainer

SMALL = 2**21
"""Numbers in the workers' gradients of one round, step sizes · n · d, below which a round has one thread, since
threads meet at the end of every operation (docs/running.md). Load thus changes no order of a sum in these."""

SHARE = "EXPERIMENTS_CORES"
"""The variable by which a sweep tells each of its processes how many cores are its own."""


def own_cores(environment: Mapping[str, str]) -> int | None:
    """The cores that a run of this process may fill; None where OMP_NUM_THREADS is somebody's wish, which counts."""
    if SHARE in environment:
        return int(environment[SHARE])
    return None if "OMP_NUM_THREADS" in environment else cores()


@contextmanager
def set_threads(run: RunConfig, trainer: Trainer) -> Iterator[None]:
    """Compute within with as many threads as the run's size asks for, and afterwards with those of before.

    A run on a GPU is left as it is, and so is one that says how many threads it has.
    """
    own = own_cores(os.environ)
    if run.threads is not None or own is None or trainer.task.device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    numbers = len(run.lr) * run.cluster.workers * trainer.task.d
    torch.set_num_threads(own if numbers >= SMALL else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
