"""Build the objects that a configuration names."""

import ctypes
import gc
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

import torch

from algorithms.compressors import Blocks, Compressor, Identity
from algorithms.compressors.base import payload_bytes
from algorithms.compressors.blocks import BUCKET_MB, bucket_sizes
from algorithms.compressors.floats import Cast
from algorithms.core.algorithm import Algorithm
from algorithms.core.lr_schedules import factor
from algorithms.core.participation import Participation
from algorithms.core.update_rules import Update
from algorithms.utils.layout import Layout
from common.errors import UsageError
from experiments.cluster.base import Cluster, Simulated
from experiments.cluster.ranks import Group, Ranks, shares
from experiments.cluster.torchrun import Sharded, Torchrun
from experiments.config.classes import Classes, as_node, parameter_types, parameters
from experiments.config.schema import RunConfig
from experiments.loggers.logger import build_logger
from experiments.tasks.task import Task, layout_of
from experiments.training.trainer import Trainer
from plots.runs.columns import check_rule, column, declare, sign

T = TypeVar("T", bound=Trainer)

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # mallopt(3)


def build_algorithm(run: RunConfig, layout: Layout = ()) -> Algorithm:
    """Build the algorithm with its compressor and update. Raises UsageError if they do not fit together.

    layout: the task's parameter tensors, which `partition` splits into blocks. Without it the compressor takes the
    whole vector, which is enough to check a configuration before data are loaded.
    """
    classes, sizes = Classes(run.packages), tuple(block.size for block in layout)
    compressor = classes.build(as_node(run.compressor), "compressor", Compressor, {"layout": layout})
    parts: dict[str, Any] = {"compressor": compressor}
    if run.update.target is not None:
        parts["update"] = classes.build(as_node(run.update), "update", Update)
    factory = classes.find(as_node(run.algorithm), "algorithm", Algorithm)
    hints = parameter_types(factory)
    if "compressor" not in hints:
        is_bare = "compressor" in parameters(factory)
        advice = "annotate its parameter: compressor: Compressor" if is_bare else "is it an algorithm?"
        raise UsageError(f"algorithm._target_={run.algorithm.target}: takes no compressor; {advice}")
    for group in ("compressor", "update"):
        part, wanted = parts.get(group), hints.get(group, type(None))
        if not isinstance(part, wanted):
            raise UsageError(
                f"{group}={type(part).__name__}: algorithm={run.algorithm.name} takes "
                f"{wanted.__name__ if group in hints else 'none, it brings its own'}; leave {group} out, or choose "
                "another algorithm"
            )
    # Identity and Cast have no scale for blocks.
    if run.partition != "whole" and not isinstance(compressor, Identity | Cast):
        if not issubclass(Blocks, hints["compressor"]):
            raise UsageError(
                f"partition={run.partition}: algorithm={run.algorithm.name} takes {hints['compressor'].__name__} of "
                "the vector as a whole; leave partition out, or choose another algorithm"
            )
        if sizes:
            blocks = sizes if run.partition == "layer" else bucket_sizes(sizes, BUCKET_MB)
            parts["compressor"] = Blocks(compressor, blocks)
    d = sum(sizes) if sizes else None
    workers = run.cluster.groups or run.cluster.workers  # a group is one worker of the method
    facts = {"rounds": run.rounds, "workers": workers, "seed": run.seed, "d": d, "layout": layout}
    algorithm = classes.build(as_node(run.algorithm), "algorithm", Algorithm, facts, **parts)
    participation_of(run, algorithm)
    return algorithm if run.clip_aggregate is None else replace(algorithm, clip=run.clip_aggregate)


def participation_of(run: RunConfig, algorithm: Algorithm) -> Participation | None:
    """Return who sends in each round; None: all workers. Raises UsageError if the algorithm needs all of them."""
    cluster = run.cluster
    if not (cluster.participation or cluster.absent or cluster.late):
        return None
    if cluster.server == "sharded":
        raise UsageError("cluster.server=sharded: does not support absent or late workers; set cluster.server=rank0")
    n, member = (cluster.groups, "group") if cluster.groups else (cluster.workers, "worker")
    plans = {"absent": cluster.absent or (), "late": cluster.late or ()}
    try:
        found = Participation(workers=n, seed=run.seed, chance=cluster.participation or 1.0, **plans, member=member)
        found.check(algorithm, run.rounds)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return found


def build_task(run: RunConfig, ranks: Ranks | None = None) -> Task:
    """Load a task's data, share them over all workers, and build it for this rank's workers. Raises LostContact."""
    ranks, classes, task = ranks or Ranks(), Classes(run.packages), as_node(run.task)
    n, ids = run.cluster.workers, ranks.ids(run.cluster.workers, run.cluster.groups)
    place = {"device": torch.device(device_of(run, ranks.local_rank))}
    # The first rank of every machine fetches and decodes, the others then read its cache.
    if ranks.local_rank:
        ranks.wait()
    try:
        return classes.build(task, "task", Task, place, workers=n, seed=run.seed, ids=ids)
    finally:  # so that the others raise the same error, not LostContact
        if not ranks.local_rank:
            ranks.wait()


def device_of(run: RunConfig, local_rank: int = 0) -> str:
    """Return the run's device, `cpu` or `cuda:<local rank>`. Raises UsageError if it is not available."""
    able = _task_class(run).devices
    wanted = run.device
    if wanted == "auto":
        wanted = "cuda" if "cuda" in able and torch.cuda.is_available() else "cpu"
    if wanted not in able:
        raise UsageError(f"device={wanted}: task={run.task.name} runs on {' or '.join(able)} only")
    if wanted == "cpu":
        return wanted
    if not torch.cuda.is_available():
        raise UsageError("device=cuda: torch sees no CUDA GPU here; take device=cpu, or a torch built for your GPU")
    # srun may show each task only its own GPUs, from 0. All ranks of one torchrun share its task's GPUs.
    if "SLURM_GPUS_PER_TASK" in os.environ and "TORCHELASTIC_RUN_ID" not in os.environ:
        local_rank %= torch.cuda.device_count()
    if local_rank >= torch.cuda.device_count():
        raise UsageError(
            f"device=cuda: rank {local_rank} of this machine has no GPU of its own, there are "
            f"{torch.cuda.device_count()}; start one rank a GPU (a rank can have several workers), or take device=cpu"
        )
    return f"cuda:{local_rank}"


def build_trainer(run: RunConfig, ranks: Ranks) -> Trainer:
    """Build and check everything that a run needs. It writes nothing but cached data.

    Raises UsageError or DataError if parts do not fit together or into memory, and LostContact.
    """
    configure_torch(run)
    task = build_task(run, ranks)
    algorithm = build_algorithm(run, layout_of(task))
    if not any(algorithm.stages(t) for t in range(1, run.rounds + 1)):
        raise UsageError(
            f"rounds={run.rounds}: workers of algorithm={run.algorithm.name} exchange nothing in so few rounds, so "
            "the model would not move; set more rounds, or a smaller algorithm.period"
        )
    try:
        algorithm.check(task.d)
        _try_out(run, algorithm, task)
        cluster = _cluster(run, algorithm, ranks, task.d)
        keep_freed_memory()
        return trainer_of(run, Trainer, task, cluster, algorithm)
    except ValueError as error:
        raise UsageError(str(error)) from error


def configure_torch(run: RunConfig) -> None:
    """Set torch's threads, and whether it takes deterministic algorithms."""
    if run.threads:
        torch.set_num_threads(run.threads)
    if run.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before cuBLAS starts and reads it
        torch.backends.cudnn.benchmark = False
    if run.deterministic or torch.are_deterministic_algorithms_enabled():  # setting it takes seconds
        torch.use_deterministic_algorithms(run.deterministic)


def _try_out(run: RunConfig, algorithm: Algorithm, task: Task) -> None:
    """Compress one vector of the task's shape. Raises UsageError if a compressor, such as a user's, cannot."""
    for channel in (algorithm.uplink, algorithm.downlink):
        try:
            payload_bytes(channel.compressor, task.d, task.dtype)
        except Exception as error:  # a user's compressor may raise anything
            options = ", ".join(f"{name}={value}" for name, value in run.compressor.options.items())
            raise UsageError(
                f"compressor={run.compressor.target}({options}): cannot compress the {task.d} coordinates of "
                f"task={run.task.name}: {type(error).__name__}: {error}"
            ) from error


def trainer_of(run: RunConfig, kind: type[T], task: Task, cluster: Any, algorithm: Algorithm) -> T:
    """Build a trainer of this kind with the run's step sizes, rounds and clipping."""
    unit = task.step_unit(algorithm)
    if run.cluster.groups and unit != 1:
        raise UsageError(
            "task.step_unit: theory's step sizes are not for groups; set task.step_unit=one, or cluster.groups=null"
        )
    return kind(
        task,
        cluster,
        lrs=run.lr,
        rounds=run.rounds,
        schedule=partial(factor, run.lr_schedule, warmup=run.warmup_rounds, final=run.lr_final),
        clip=run.clip_worker,
        unit=unit,
    )


def keep_freed_memory() -> None:
    """Let glibc reuse freed memory. By default every vector beyond 32 MiB comes from the system anew, with zeroed
    pages. For a large network that takes longer than computing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def release_and_explain(error: torch.OutOfMemoryError) -> str:
    """Release the failed call's memory on the GPU, and return a message."""
    traceback.clear_frames(error.__traceback__)
    release_gpu_memory()
    reason = str(error).partition(". GPU ")[0]
    return f"{reason}; use a larger GPU, fewer step sizes or a smaller batch, or more GPUs by ranks=N"


def release_gpu_memory() -> None:
    """Give the memory of dropped tensors back to the GPU, for other processes too."""
    if torch.cuda.is_initialized():
        gc.collect()  # a captured graph is part of a cycle
        torch.cuda.empty_cache()


def _cluster(run: RunConfig, algorithm: Algorithm, ranks: Ranks, d: int) -> Cluster:
    n, groups, size = run.cluster.workers, run.cluster.groups, run.cluster.group_size
    ids, present = ranks.ids(n, groups), participation_of(run, algorithm)
    if not isinstance(ranks, Group):
        return Simulated(algorithm, len(ids), run.seed, present, size)
    if run.cluster.server == "sharded":
        return Sharded(algorithm, ids, shares(n, ranks.size), run.seed, d)
    return Torchrun(algorithm, ids, shares(n, ranks.size, groups), run.seed, present, size, run.cluster.timeout)


def check(run: RunConfig) -> None:
    """Raise UsageError for a wrong option or an unavailable device, without loading data."""
    build_algorithm(run)
    device_of(run)
    build_logger(run)
    declare_columns(_task_class(run))


def check_direction(run: RunConfig, rule: str | None, sweeper: Mapping[str, Any]) -> None:
    """Raise UsageError if a sweeper searches in the wrong direction, or by a metric without a direction.

    rule: the option `select`. None: the metric that the task declares, or else train_loss.
    """
    metric = declare_columns(_task_class(run)).get("metric", "train_loss")
    if rule is not None:
        check_rule(rule)
        metric = rule.partition("_")[2]
    direction, better = sweeper.get("direction"), column(metric).better
    direction = getattr(direction, "name", direction)  # Optuna's default is an enum's member
    right = {"lower": "minimize", "higher": "maximize"}.get(better)
    if direction and right and direction != right:
        raise UsageError(f"hydra.sweeper.direction={direction}: a {better} {metric} is better; set it to {right}")


def declare_columns(task: Task) -> dict:
    """Declare a task's columns, and return them with the metric that selects step sizes.

    Raises UsageError for a metric without a better direction.
    """
    columns, metric = [asdict(column) for column in getattr(task, "columns", ())], getattr(task, "metric", None)
    declare(columns)
    if metric:
        sign(metric)
    return {key: value for key, value in (("columns", columns), ("metric", metric)) if value}


def _task_class(run: RunConfig) -> Any:
    return Classes(run.packages).find(as_node(run.task), "task", Task)
