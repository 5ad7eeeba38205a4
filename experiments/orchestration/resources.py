"""How many runs go at once where nobody said: `jobs: auto`."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from joblib import cpu_count as cores

from data.limits import free_memory
from experiments.cluster.launch import launch as place_of
from experiments.cluster.ranks import shares
from experiments.cluster.simulated import Simulated
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration.plan import kind
from experiments.tasks.task import layout_of
from experiments.training.build import build_algorithm, build_task, device_of
from experiments.training.memory import vectors
from experiments.training.threads import own_cores

BESIDES = 2**30
"""Bytes of a process besides its vectors: libraries, data, activations. A stated allowance, not a prediction."""


def at_once(missing: int, cores: int, threads: int = 1, ranks: int = 1, fit: int = sys.maxsize) -> int:
    """Of so many missing runs, each with `ranks` processes of `threads` threads, as many as there are cores for and
    as `fit` into memory; at least one."""
    return max(1, min(missing, cores // (threads * ranks), fit))


def count_jobs(launch: LaunchConfig, missing: Sequence[RunConfig]) -> LaunchConfig:
    """The launch with a number of jobs for these runs, on GPUs one for each that the ranks of a run do not share.

    Where cores are there for more than one, the task of a run of each kind is built here, for its d; its data are
    then in the cache for all. What is wrong with it, its run says.
    """
    if launch.jobs is not None:
        return launch
    if place_of() is not None or len(missing) < 2:
        return replace(launch, jobs=1)
    wished = torch.get_num_threads() if own_cores(os.environ) is None else 1
    threads = max(run.threads or wished for run in missing)
    count = at_once(len(missing), cores(), threads, launch.ranks)
    if any(device_of(run) != "cpu" for run in missing):
        count = at_once(count, torch.cuda.device_count(), ranks=launch.ranks)
    elif count > 1:
        memory = max(_memory(run, launch.ranks) for run in {kind(run): run for run in missing}.values())
        count = at_once(count, count, fit=free_memory() // memory)
    return replace(launch, jobs=count)


def _memory(run: RunConfig, ranks: int) -> int:
    """About how many bytes all processes of a run take, as far as its task tells."""
    held = 0
    with suppress(Exception):
        task = build_task(run, range(1))
        algorithm = build_algorithm(run, layout_of(task))
        for own in shares(run.cluster.workers, ranks):
            held += vectors(Simulated(algorithm, own, run.seed), task.d, task.dtype, len(run.lr))
            held += task.nbytes(own) if hasattr(task, "nbytes") else 0
    return held + ranks * BESIDES
