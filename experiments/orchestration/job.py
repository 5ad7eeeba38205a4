"""One run of a sweep in a process of its own.

    python -m experiments.orchestration.job FILE [PACKAGE ...]

starts the run, or one of its ranks if it has several. FILE is a configuration that the sweep wrote.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import yaml

from common.errors import exit_with_message
from common.signals import end_with_parent
from experiments.cluster.launch import read_launch
from experiments.config.compose import ROOT
from experiments.config.run import read_run
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration.processes import GRACE
from experiments.run_store.code import find_edits
from experiments.training.build import device_of
from experiments.training.session import train_here
from experiments.training.threads import SHARE, cores, is_set_by_user

_NAME = "experiments.orchestration.job"


def train(file: Path, packages: Sequence[str], ranks: int = 1, run: RunConfig | None = None) -> None:
    """Bring the run of a configuration to its end, in this process or in those of a torchrun.

    run: the run of the file, if the caller has already read it. This saves parsing it again.
    """
    if ranks > 1:
        from torch.distributed.run import main

        main(["--standalone", f"--nproc-per-node={ranks}", "-m", _NAME, str(file), *packages])
        return
    from experiments.orchestration.preloaded import CODE  # here, because that module imports this one

    if find_edits(CODE):  # edited since it was imported
        os.execv(sys.executable, [sys.executable, "-m", _NAME, str(file), *packages])
    if threads := os.environ.get("OMP_NUM_THREADS"):
        # torch was imported before this process had its environment; 4,2 is a number for each nested level
        torch.set_num_threads(int(threads.partition(",")[0]))
    with exit_with_message():
        train_here(run or read_run(yaml.load(file.read_text(), yaml.CSafeLoader), packages))


def environment(run: RunConfig, jobs: int, ranks: int, slot: int) -> dict[str, str]:
    """Return the environment variables of a run's process besides ours.

    slot: its number among `jobs` runs at once, from 0. Each gets its own GPUs and cores, if there are enough.
    """
    added = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PYTHONSAFEPATH": "1"}  # it imports as we do
    if device_of(run) != "cpu":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        count = torch.cuda.device_count()
        gpus = [name.strip() for name in visible.split(",")][:count] if visible else list(map(str, range(count)))
        added["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[(slot * ranks + rank) % len(gpus)] for rank in range(ranks))
    if run.threads is None and "OMP_NUM_THREADS" not in os.environ:
        added["OMP_NUM_THREADS"] = added[SHARE] = str(max(1, cores() // (jobs * ranks)))
    if ranks > 1:  # torchrun kills its ranks after this time, and needs some of it to report
        added["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(round(GRACE - 10))
    return added


def count_jobs(launch: LaunchConfig, missing: Sequence[RunConfig]) -> LaunchConfig:
    """Return the launch with a number of jobs, at least one; a given number stays.

    There are as many jobs as cores allow for the ranks and threads of these runs. On GPUs no two ranks share one."""
    if launch.jobs is not None:
        return launch
    if read_launch() is not None or len(missing) < 2:
        return replace(launch, jobs=1)
    wished = torch.get_num_threads() if is_set_by_user(os.environ) else 1
    threads = max(run.threads or wished for run in missing)
    count = cores() // (threads * launch.ranks)
    if any(device_of(run) != "cpu" for run in missing):
        count = min(count, torch.cuda.device_count() // launch.ranks)
    return replace(launch, jobs=max(1, min(len(missing), count)))


if __name__ == "__main__":
    end_with_parent()
    train(Path(sys.argv[1]), sys.argv[2:])
