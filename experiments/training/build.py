"""From a resolved configuration to the objects it names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from algorithms.compressors import Blocks
from algorithms.protocol import Algorithm
from common.errors import UsageError
from experiments.cluster.ranks import Group, Ranks
from experiments.cluster.simulated import Simulated
from experiments.cluster.torchrun import Torchrun
from experiments.config.classes import Targets, parameter_types
from experiments.config.compose import Config
from experiments.loggers.logger import build_logger
from experiments.tasks.task import Task
from experiments.training.trainer import Trainer

_LABELS = ("name", "display")
"""Keys of algorithm and task that are for paths and figures, not for the constructor."""


def build_algorithm(config: Config, sizes: tuple[int, ...] | None = None) -> Algorithm:
    """The algorithm with its compressor and update. Raises UsageError for what does not fit together.

    `sizes` are those of the task's parameter tensors, the blocks of `partition: layer`; without them the compressor
    takes the vector as a whole, which is enough to check a configuration before there are data.
    """
    targets = Targets(config["packages"])
    compressor = targets.build(config["compressor"], "compressor")
    if config["partition"] == "layer" and sizes:
        compressor = Blocks(compressor, sizes)
    parts: dict[str, Any] = {"compressor": compressor}
    if config["update"].get("_target_", "") is not None:
        parts["update"] = targets.build(config["update"], "update")
    factory = targets.find(config["algorithm"], "algorithm")
    hints = parameter_types(factory)
    if "compressor" not in hints:
        raise UsageError(
            f"algorithm._target_={config['algorithm']['_target_']}: takes no compressor; is it an algorithm?"
        )
    for group in ("compressor", "update"):
        part, wanted = parts.get(group), hints.get(group, type(None))
        if not isinstance(part, wanted):
            raise UsageError(
                f"{group}={type(part).__name__}: algorithm={config['algorithm']['name']} takes "
                f"{wanted.__name__ if group in hints else 'none, it brings its own'}; leave {group} out, or choose "
                "another algorithm"
            )
    if "rounds" in hints:
        parts["rounds"] = config["rounds"]
    return targets.build(_unlabelled(config["algorithm"]), "algorithm", **parts)


def build_task(config: Config, ids: Sequence[int] | None = None, local_rank: int = 0) -> Task:
    """The task with its data loaded and shared over the workers, for the workers `ids` (None: all)."""
    targets = Targets(config["packages"])
    extra = {"workers": config["cluster"]["workers"], "seed": config["seed"], "ids": ids}
    if "device" in parameter_types(targets.find(config["task"], "task")):
        extra["device"] = torch.device(device_of(config, local_rank))
    return targets.build(_unlabelled(config["task"]), "task", **extra)


def device_of(config: Config, local_rank: int = 0) -> str:
    """Where the run computes: `cpu`, or `cuda:<local rank>`. Raises UsageError where that is not there."""
    able = Targets(config["packages"]).find(config["task"], "task").devices
    wanted = config["device"]
    if wanted == "auto":
        wanted = "cuda" if "cuda" in able and torch.cuda.is_available() else "cpu"
    if wanted not in able:
        raise UsageError(f"device={wanted}: task={config['task']['name']} runs on {' or '.join(able)} only")
    if wanted == "cpu":
        return wanted
    if not torch.cuda.is_available():
        raise UsageError("device=cuda: torch sees no CUDA GPU here; take device=cpu, or a torch built for your GPU")
    if "SLURM_GPUS_PER_TASK" in os.environ:  # srun may show every task its own GPUs alone, counted from 0
        local_rank %= torch.cuda.device_count()
    if local_rank >= torch.cuda.device_count():
        raise UsageError(
            f"device=cuda: rank {local_rank} of this machine has no GPU of its own, there are "
            f"{torch.cuda.device_count()}; start one rank a GPU (a rank can have several workers), or take device=cpu"
        )
    return f"cuda:{local_rank}"


def build_trainer(config: Config, ranks: Ranks) -> Trainer:
    """Everything that a run needs, built and checked, with nothing yet on disk but cached data.

    Raises UsageError or DataError for what does not fit together, and LostContact.
    """
    if config["threads"]:
        torch.set_num_threads(config["threads"])
    ids = ranks.ids(config["cluster"]["workers"])
    # The first rank of every machine fetches and decodes, the others then find it in the cache.
    if ranks.local_rank:
        ranks.wait()
    try:
        task = build_task(config, ids, ranks.local_rank)
    except UsageError:
        if not ranks.local_rank:
            ranks.wait()  # so that the others find the same, rather than that this one is gone
        raise
    if not ranks.local_rank:
        ranks.wait()
    algorithm = build_algorithm(config, task.sizes)
    together = isinstance(ranks, Group)
    cluster = Torchrun(algorithm, ids, config["seed"]) if together else Simulated(algorithm, len(ids), config["seed"])
    try:
        return Trainer(
            task,
            cluster,
            lrs=config["lr"],
            rounds=config["rounds"],
            schedule=config["lr_schedule"],
            unit=task.step_unit(algorithm.uplink.compressor),
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def check(config: Config, here: bool = True) -> None:
    """Raise UsageError for a wrong option anywhere, without loading any data.

    here: whether it is to run on this machine, which then must have its device.
    """
    build_algorithm(config)
    if here:
        device_of(config)
    targets, task = Targets(config["packages"]), _unlabelled(config["task"])
    targets.check_options(task, "task")
    target = targets.find(task, "task")
    if hasattr(target, "check_options"):
        wanted = parameter_types(target.check_options)
        try:
            target.check_options(**{key: value for key, value in task.items() if key in wanted})
        except ValueError as error:
            raise UsageError(f"task: {error}") from error
    build_logger(config)


def _unlabelled(node: Config) -> Config:
    return {key: value for key, value in node.items() if key not in _LABELS}
