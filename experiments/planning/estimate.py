"""How long runs will take, measured on this machine before the first of them begins."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from algorithms.layout import Layout
from experiments.cluster.ranks import Ranks
from experiments.config import identity
from experiments.config.evaluations import evaluations
from experiments.config.schema import RunConfig
from experiments.run_store.folder import RunFolder
from experiments.tasks.task import Task, layout_of
from experiments.training.build import build_algorithm, build_trainer, device_of
from experiments.training.memory import explained
from experiments.training.threads import chosen
from experiments.training.trainer import Trainer

_ROUNDS = 3  # timed, after one that is not
_LONG = 1.0  # seconds that a trial should not take much more of
_ROWS = 16  # of a batch that a long round is told from
_SMALL = 1e-9


@dataclass(frozen=True)
class Trial:
    """What a few rounds of one run told about all runs of its kind."""

    d: int
    layout: Layout  # of the parameter tensors
    dtype: torch.dtype
    round: float  # seconds, of a method that takes one gradient in it
    evaluation: float  # seconds
    data: int = 0  # bytes in a process, 0 where the task does not say

    def seconds(self, run: RunConfig, done: int = 0) -> float:
        """Of a whole run, or of what is left of it after `done` rounds."""
        whole = _gradients(run, self.layout) * self.round * run.rounds + self.evaluation * evaluations(run)
        return whole * (1 - done / run.rounds)


def estimate(runs: list[RunConfig], ranks: Ranks, say: Callable[[str], object]) -> tuple[int, float]:
    """How many of the runs are not finished yet, and the seconds they will take from their beginning.

    One run of every kind is tried; `say` is told which.
    """
    waiting = [run for run in runs if not ranks.told(RunFolder(identity.folder(run), ranks).is_finished())]
    trials: dict[str, Trial] = {}
    for run in waiting:
        if kind(run) not in trials:
            trials[kind(run)] = trial(run, ranks, say)
    return len(waiting), sum(trials[kind(run)].seconds(run) for run in waiting)


def kind(run: RunConfig) -> str:
    """What one trial serves: a task and a number of step sizes. Methods differ little in what a round takes, but for
    those that take two gradients."""
    return json.dumps([run.task.node(), run.cluster.workers, len(run.lr)], sort_keys=True)


def among(run: RunConfig, jobs: int) -> RunConfig:
    """The run as it computes where so many go on at once: sharing the cores, with one thread unless somebody said."""
    return run if jobs == 1 else replace(run, threads=run.threads or 1)


def trial(run: RunConfig, ranks: Ranks, say: Callable[[str], object]) -> Trial:
    """Train a round or a few that leave nothing behind; `say` is told which.

    Where a round would take long on a CPU, it is told from a few rows of one worker, and an evaluation from its rows.
    Raises UsageError or DataError for what does not fit together, RunError where memory does not suffice, and
    LostContact.
    """
    threads = torch.get_num_threads()
    try:
        found = _tried(run, ranks, say)
        return replace(found, round=found.round / _gradients(run, found.layout))
    finally:
        torch.set_num_threads(threads)


def _tried(run: RunConfig, ranks: Ranks, say: Callable[[str], object]) -> Trial:
    precision = run.task.options.get("precision")
    where = f", in {precision}" if precision else ""
    say(f"timing a round of {run.task.name} with {run.cluster.workers} workers{where}")
    # Steps too small to diverge: a step size that does is for its run to report.
    tried = replace(run, lr=tuple(lr * _SMALL for lr in run.lr))
    mine = len(ranks.ids(run.cluster.workers))
    # On a GPU a few rows take nearly as long as all of them.
    if mine > 1 and ranks.size == 1 and device_of(run) == "cpu":
        part, times = _part(tried)
        one, seconds = _timed(part, Share(run.cluster.workers), 1)
        task, seconds = one.task, seconds * times * mine
        if seconds > _LONG and hasattr(task, "evaluated"):
            evaluation = seconds / (times * mine) / (task.batch_size or task.rows) * task.evaluated
            return _trial(task, mine, seconds, evaluation)
    trainer, seconds = _timed(tried, ranks, _ROUNDS)
    with explained(trainer), chosen(run, trainer):
        begin = time.perf_counter()
        trainer.evaluate()
        task, evaluation = trainer.task, time.perf_counter() - begin
    return _trial(task, mine, seconds, evaluation)


def _trial(task: Task, workers: int, seconds: float, evaluation: float) -> Trial:
    data = task.nbytes(workers) if hasattr(task, "nbytes") else 0
    return Trial(task.d, layout_of(task), task.dtype, seconds, evaluation, data)


class Share(Ranks):
    """The first of several ranks, without the others."""

    def __init__(self, size: int) -> None:
        self.size = size


def _gradients(run: RunConfig, layout: Layout) -> int:
    """Of a worker in a round."""
    return 2 if build_algorithm(run, layout).looks_back else 1


def _part(run: RunConfig) -> tuple[RunConfig, float]:
    """The run with a small batch, and how many times as large its own is."""
    size = run.task.options.get("batch_size") or 0
    if size <= _ROWS:
        return run, 1.0
    return replace(run, task=replace(run.task, options={**run.task.options, "batch_size": _ROWS})), size / _ROWS


def _timed(run: RunConfig, ranks: Ranks, rounds: int) -> tuple[Trainer, float]:
    """A trainer of the run, and the seconds of its rounds, after one that is not timed where it is short, nor on a
    GPU, where libraries start in it and a graph is captured."""
    with explained():
        trainer = build_trainer(run, ranks)
    trainer.rounds = max(trainer.rounds, rounds + 1)  # schedules take shares of it
    with explained(trainer), chosen(run, trainer):
        begin = time.perf_counter()
        trainer.step()
        trainer.verify()  # which waits for a GPU
        first = time.perf_counter()
        if first - begin > _LONG and device_of(run) == "cpu":
            return trainer, first - begin
        for _ in range(rounds):
            trainer.step()
        trainer.verify()
        return trainer, (time.perf_counter() - first) / rounds
