"""Estimate the cost of runs before they begin: time a round of each kind here, and multiply."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from rich.console import Console

from algorithms.core.bit_counter import BitCounter, as_number
from algorithms.utils.layout import Layout
from common import tables
from common.errors import UsageError
from common.progress import format_duration
from experiments.cluster.launch import read_launch
from experiments.cluster.ranks import Ranks
from experiments.config import identity
from experiments.config.run import config_of
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.run_store.code import report_edits
from experiments.run_store.folder import RunFolder
from experiments.tasks.task import layout_of
from experiments.training.build import (
    build_algorithm,
    build_trainer,
    device_of,
    participation_of,
    release_and_explain,
    release_gpu_memory,
)
from experiments.training.threads import set_threads
from experiments.training.trainer import Trainer
from plots.runs.read import RunRecord
from plots.runs.variants import settings

_COLUMNS = ("task", "algorithm", "n", "seed", "lr", "rounds", "settings", "state", "bits up", "bits down", "time")
_LONG = 1.0  # seconds; a longer round of all workers is estimated from one worker's


@dataclass(frozen=True)
class Trial:
    """The times of a round and an evaluation, for all runs of one kind."""

    d: int
    layout: Layout  # of the parameter tensors
    dtype: torch.dtype
    round: float  # seconds, of a method that takes one gradient in it
    evaluation: float  # seconds

    def seconds(self, run: RunConfig, done: int = 0) -> float:
        """Return the seconds of a whole run, or of the rounds after `done`."""
        whole = _gradients_per_round(run, self.layout) * self.round * run.rounds + self.evaluation * run.evaluations
        return whole * (1 - done / run.rounds)


def kind(run: RunConfig) -> str:
    """Return a key for the runs that one trial serves: task, workers and number of step sizes."""
    return json.dumps([run.task.node(), run.cluster.workers, len(run.lr)], sort_keys=True)


def run_trial(run: RunConfig, ranks: Ranks, jobs: int, say: Callable[[str], object]) -> Trial:
    """Time a round and an evaluation of a run, one of `jobs` at once, and leave nothing behind.

    On a CPU a long round is estimated from one worker's, and its evaluation from the number of rows. Raises
    UsageError, DataError or RunError for settings that do not fit the data or the memory.
    """
    say(f"timing a round of {run.task.name} with {run.cluster.workers} workers")
    # Tiny step sizes do not diverge in these few rounds. Runs that share the cores have one thread each.
    own = run.threads or (1 if jobs > 1 else None)
    everyone = replace(run.cluster, participation=None, absent=None, late=None)
    run = replace(run, lr=tuple(1e-9 * lr for lr in run.lr), rounds=max(run.rounds, 5), threads=own, cluster=everyone)
    workers, threads = len(ranks.ids(run.cluster.workers, run.cluster.groups)), torch.get_num_threads()
    evaluation, alone = None, workers > 1 and ranks.size == 1 and device_of(run) == "cpu"
    try:
        trainer, seconds = _time_round(run, Ranks(run.cluster.workers) if alone else ranks)
        task = trainer.task
        if alone and seconds * workers > _LONG and hasattr(task, "evaluated"):
            evaluation, seconds = seconds / (task.batch_size or task.rows) * task.evaluated, seconds * workers
        elif alone:
            trainer, seconds = _time_round(run, ranks)
        if evaluation is None:
            with set_threads(run, trainer):
                begin = time.perf_counter()
                trainer.evaluate()
                evaluation = time.perf_counter() - begin
    except torch.OutOfMemoryError as error:
        trainer = task = None
        raise UsageError(f"{run.task.name}: {release_and_explain(error)}") from error
    finally:
        torch.set_num_threads(threads)
    layout = layout_of(task)
    trial = Trial(task.d, layout, task.dtype, seconds / _gradients_per_round(run, layout), evaluation)
    del trainer, task
    release_gpu_memory()
    return trial


def _time_round(run: RunConfig, ranks: Ranks) -> tuple[Trainer, float]:
    """Return a trainer, and the seconds of its fourth round, or on a CPU of the first long one."""
    trainer = build_trainer(run, ranks)
    seconds = 0.0
    with set_threads(run, trainer):
        for _ in range(4):
            begin = time.perf_counter()
            trainer.step()
            trainer.verify()  # waits for a GPU
            seconds = time.perf_counter() - begin
            if seconds > _LONG and device_of(run) == "cpu":
                break
    return trainer, seconds


def _gradients_per_round(run: RunConfig, layout: Layout) -> int:
    """Count a worker's gradients in a round."""
    return 2 if build_algorithm(run, layout).looks_back else 1


def show(runs: Sequence[RunConfig], launch: LaunchConfig, console: Console) -> None:
    """Print each run's settings, progress and remaining cost in a line, and the totals. Nothing is trained.

    Only the first of several ranks prints. Raises UsageError or DataError if settings do not fit the data.
    """
    place = read_launch()
    if place:
        for run in runs:
            place.check(run.cluster.workers, run.cluster.groups)
        if place.rank:
            return
    ranks, jobs = Ranks(place.size if place else launch.ranks), launch.jobs or 1
    report_edits(runs, partial(print, file=sys.stderr))
    trials: dict[str, Trial] = {}
    costs, times, up, down = [], [], 0, 0
    for run in runs:
        folder = RunFolder.of_run(run)
        if folder.is_finished():
            costs.append(["finished", "–", "–", "–"])
            continue
        if kind(run) not in trials:
            trials[kind(run)] = run_trial(run, ranks, jobs, partial(print, file=sys.stderr))
        trial, done = trials[kind(run)], folder.resume_round()
        own_up, own_down = _bits(run, trial, done)
        times.append(trial.seconds(run, done))
        up, down = up + own_up, down + own_down
        state = f"at round {done}" if done else "to do"
        costs.append([state, str(own_up), str(own_down), format_duration(times[-1])])
    records = [RunRecord(identity.folder(run), "", config_of(run)) for run in runs]
    differing = settings(records)
    rows = [
        [run.task, run.algorithm, str(run.workers), str(run.seed), ",".join(map(str, run.lrs)), str(run.rounds),
         differing[run.folder] or "–", *cost]
        for run, cost in zip(records, costs, strict=True)
    ]  # fmt: skip
    columns, rows, same = tables.drop_common_columns(_COLUMNS, rows, ("state", "time"))
    tables.print_table(console, columns, rows)
    best = format_duration(max(sum(times) / jobs, *times)) if jobs > 1 and times else ""
    parallel = f", {best} at best with jobs={jobs}" if best else ""
    who = "worker or group" if any(run.cluster.groups for run in runs) else "worker"
    for line in [
        *same,
        f"{len(runs)} runs, {len(times)} of them to do",
        f"bits of one {who}: {up} up, {down} down",
        f"time: about {format_duration(sum(times))} one after the other{parallel}; estimated from rounds "
        "timed here, without process starts and communication",
    ]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _bits(run: RunConfig, trial: Trial, done: int) -> tuple[int | float, int | float]:
    """Count the bits up and down of the rounds after `done`."""
    algorithm, meter = build_algorithm(run, trial.layout), BitCounter()
    try:
        algorithm.check(trial.d)
    except ValueError as error:
        raise UsageError(str(error)) from error
    present = participation_of(run, algorithm)
    for t in range(done + 1, run.rounds + 1):
        meter.count(algorithm, trial.d, t, trial.dtype, present)
    return as_number(meter.bits_up), as_number(meter.bits_down)
