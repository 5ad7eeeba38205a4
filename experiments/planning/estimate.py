"""The time that runs take, from a few rounds timed on this machine."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from algorithms.utils.layout import Layout
from experiments.cluster.ranks import Ranks
from experiments.config.schema import RunConfig
from experiments.tasks.task import Task, layout_of
from experiments.training.build import build_algorithm, build_trainer, device_of
from experiments.training.memory import explained
from experiments.training.threads import chosen
from experiments.training.trainer import Trainer

_ROUNDS = 3  # timed, after one that is not
_LONG = 1.0  # seconds; a longer first round is not repeated
_SHORT = 0.25  # seconds; a longer round of all workers is estimated from a part of it
_ROWS = 16  # of one worker's batch, in such a part
_SMALL = 1e-9


@dataclass(frozen=True)
class Trial:
    """The times of a round and an evaluation, for all runs of one kind."""

    d: int
    layout: Layout  # of the parameter tensors
    dtype: torch.dtype
    round: float  # seconds, of a method that takes one gradient in it
    evaluation: float  # seconds
    data: int = 0  # bytes in a process, 0 where the task does not say

    def seconds(self, run: RunConfig, done: int = 0) -> float:
        """Of a whole run, or of the rest after `done` rounds."""
        whole = _gradients(run, self.layout) * self.round * run.rounds + self.evaluation * run.evaluations
        return whole * (1 - done / run.rounds)


class Share(Ranks):
    """The first of several ranks, without the others."""

    def __init__(self, size: int) -> None:
        self.size = size


def kind(run: RunConfig) -> str:
    """The runs that one trial serves: a task, its workers and a number of step sizes. Methods take about the same
    time, except for those with two gradients a round."""
    return json.dumps([run.task.node(), run.cluster.workers, len(run.lr)], sort_keys=True)


def among(run: RunConfig, jobs: int) -> RunConfig:
    """The run as one of so many at once: they share the cores, one thread each unless the run says how many."""
    return run if jobs == 1 else replace(run, threads=run.threads or 1)


def trial(run: RunConfig, ranks: Ranks, say: Callable[[str], object]) -> Trial:
    """Time a round and an evaluation of a run, and leave nothing behind; `say` is told which.

    On a CPU a long round is estimated from a few rows of one worker, in seconds.
    Raises UsageError or DataError for settings that do not fit the data, and RunError where memory does not suffice.
    """
    precision = run.task.options.get("precision")
    where = f", in {precision}" if precision else ""
    say(f"timing a round of {run.task.name} with {run.cluster.workers} workers{where}")
    run = replace(run, lr=tuple(lr * _SMALL for lr in run.lr))  # with these none diverges
    threads = torch.get_num_threads()
    try:
        found = _from_a_part(run, ranks) or _whole(run, ranks)
        return replace(found, round=found.round / _gradients(run, found.layout))
    finally:
        torch.set_num_threads(threads)


def _from_a_part(run: RunConfig, ranks: Ranks) -> Trial | None:
    """From a few rows of one worker; None where the whole round is short, or where a part takes as long."""
    workers = len(ranks.ids(run.cluster.workers))
    if workers == 1 or ranks.size > 1 or device_of(run) != "cpu":
        return None
    size, part = run.task.options.get("batch_size") or 0, run
    if size > _ROWS:
        part = replace(run, task=replace(run.task, options={**run.task.options, "batch_size": _ROWS}))
    trainer, seconds = _timed(part, Share(run.cluster.workers), 1)
    task, a_worker = trainer.task, seconds * max(size / _ROWS, 1)
    if a_worker * workers <= _SHORT or not hasattr(task, "evaluated"):
        return None
    return _trial(task, workers, a_worker * workers, a_worker / (size or task.rows) * task.evaluated)


def _whole(run: RunConfig, ranks: Ranks) -> Trial:
    trainer, seconds = _timed(run, ranks, _ROUNDS)
    with explained(trainer), chosen(run, trainer):
        begin = time.perf_counter()
        trainer.evaluate()
        evaluation = time.perf_counter() - begin
    return _trial(trainer.task, len(ranks.ids(run.cluster.workers)), seconds, evaluation)


def _trial(task: Task, workers: int, seconds: float, evaluation: float) -> Trial:
    data = task.nbytes(workers) if hasattr(task, "nbytes") else 0
    return Trial(task.d, layout_of(task), task.dtype, seconds, evaluation, data)


def _gradients(run: RunConfig, layout: Layout) -> int:
    """Of a worker in a round."""
    return 2 if build_algorithm(run, layout).looks_back else 1


def _timed(run: RunConfig, ranks: Ranks, rounds: int) -> tuple[Trainer, float]:
    """A trainer of the run, and the seconds of a round. The first one is not timed where it is short, nor on a GPU,
    where libraries start in it and a graph is captured."""
    with explained():
        trainer = build_trainer(run, ranks)
    trainer.rounds = max(trainer.rounds, rounds + 1)  # schedules take shares of it
    with explained(trainer), chosen(run, trainer):
        begin = time.perf_counter()
        trainer.step()
        trainer.verify()  # waits for a GPU
        first = time.perf_counter()
        if first - begin > _LONG and device_of(run) == "cpu":
            return trainer, first - begin
        for _ in range(rounds):
            trainer.step()
        trainer.verify()
        return trainer, (time.perf_counter() - first) / rounds
