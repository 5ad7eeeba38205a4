"""How many runs go at once where nobody said: `jobs: auto`."""

import os
from collections.abc import Sequence
from dataclasses import replace

import torch
from joblib import cpu_count as cores

from experiments.cluster.launch import launch as place_of
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.training.build import device_of
from experiments.training.threads import own_cores


def count_jobs(launch: LaunchConfig, missing: Sequence[RunConfig]) -> LaunchConfig:
    """The launch with as many jobs as there are cores for the ranks and threads of these runs, and on GPUs one for
    each that the ranks of a run do not share; at least one."""
    if launch.jobs is not None:
        return launch
    if place_of() is not None or len(missing) < 2:
        return replace(launch, jobs=1)
    wished = torch.get_num_threads() if own_cores(os.environ) is None else 1
    threads = max(run.threads or wished for run in missing)
    count = cores() // (threads * launch.ranks)
    if any(device_of(run) != "cpu" for run in missing):
        count = min(count, torch.cuda.device_count() // launch.ranks)
    return replace(launch, jobs=max(1, min(len(missing), count)))
