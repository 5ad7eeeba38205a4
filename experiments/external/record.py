"""A run of an external strategy, in a folder that all readers of runs take for one of the harness's own."""

import math
import time
from functools import partial

import torch
import torch.distributed as dist

from algorithms.comm.gather_broadcast import contact
from algorithms.compressors import Compressor, Identity
from algorithms.core.algorithm import Algorithm, clipped
from algorithms.core.channels import dense
from algorithms.core.lr_schedules import factor
from algorithms.core.update_rules import SGD
from common.errors import RunError, UsageError, lost_contact
from common.progress import Display
from experiments.cluster.ranks import Group, Ranks
from experiments.config import identity
from experiments.config.classes import Classes, called
from experiments.config.run import plain
from experiments.config.schema import RunConfig
from experiments.external.collectives import Collectives
from experiments.external.strategy import Carrier, Strategy
from experiments.run_store.environment import environment
from experiments.run_store.folder import RunFolder
from experiments.tasks.task import Task, layout_of
from experiments.training.build import build_task
from experiments.training.runner import declare_columns, summarise


def check(run: RunConfig) -> None:
    """Raise UsageError for what an external strategy does not have, before anything is started."""
    classes = Classes(run.packages)
    classes.find(called(run.algorithm), "algorithm", Strategy)
    if classes.find(called(run.compressor), "compressor", Compressor) is not Identity or run.update.target:
        raise UsageError("compressor, update: an external strategy brings its own; leave them out")
    if (run.partition, run.clip_aggregate, run.cluster.server) != ("whole", None, "rank0"):
        raise UsageError("partition, clip_aggregate, cluster.server: external strategies do not support them")
    if len(run.lr) > 1:
        raise UsageError(f"lr={list(run.lr)}: an external strategy takes one step size per run")


def bring_to_end(run: RunConfig, display: Display, ranks: Ranks) -> RunFolder:
    """Bring the run to its end, from its beginning unless it is finished. Raises as `experiments.run` does."""
    if not isinstance(ranks, Group) or ranks.size != run.cluster.workers:
        raise UsageError(
            f"cluster.workers={run.cluster.workers}: an external strategy needs one rank per worker, and there are "
            f"{ranks.size}; start it by torchrun --nproc-per-node={run.cluster.workers}"
        )
    folder = RunFolder.of(run, ranks)
    display.begin(f"{run.task.name} · {run.algorithm.name}")
    try:
        ranks.agree({"id": identity.of(run)})
        with folder.locked():
            if ranks.from_first(folder.is_finished()):
                display.say(f"already finished: {folder.path}")
                display.skip(run.rounds)
            else:
                _train(run, folder, display, ranks)
    except ConnectionError as error:
        raise RunError(f"{lost_contact(error)}: {folder.path}") from error
    return folder


def _train(run: RunConfig, folder: RunFolder, display: Display, ranks: Ranks) -> None:
    """All rounds of a run, and what it leaves in its folder."""
    if run.threads:
        torch.set_num_threads(run.threads)
    task = build_task(run, ranks)
    facts = {**environment(), "ranks": ranks.size, "device": str(task.device), "d": task.d}
    folder.tidy()
    folder.describe(plain(run))
    folder.begin(run.packages, {**facts, **declare_columns(task), **task.facts()})
    folder.set_status("running", round=0)
    training = Training(run, task)
    try:
        folder.append(training.rows(ranks.is_first))
        while training.t < run.rounds:
            training.step()
            if run.is_due(training.t):
                folder.append(training.rows(ranks.is_first))
            display.advance(1)
    except BaseException as error:
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        folder.set_status(status, round=training.t, error=str(error) or repr(error))
        raise
    folder.finish(run.packages, summarise(folder.rows(), run.lr) if ranks.is_first else {})


class Training:
    """The rounds of one worker: the task's gradient at x, and what the strategy makes of it.

    x is this worker's, which need not be the others'; measured is worker 0's.
    """

    def __init__(self, run: RunConfig, task: Task) -> None:
        self.task, self.clip, self.t, self.seconds = task, run.clip_worker, 0, 0.0
        self.carrier = Carrier(task.start(), layout_of(task))
        strategy = Classes(run.packages).build(called(run.algorithm), "algorithm", Strategy, carrier=self.carrier)
        self.strategy, self.collectives = strategy, Collectives()
        self.statistics = task.start_statistics().unsqueeze(0)
        [self.lr] = run.lr
        plain = Algorithm.both_ways(dense(), SGD())  # of external strategies nobody has a theory of step sizes
        self.step_size = self.lr * task.step_unit(plain)
        ends = {"warmup": run.warmup_rounds, "final": run.lr_final}
        self._schedule = partial(factor, run.lr_schedule, rounds=run.rounds, **ends)

    def step(self) -> None:
        """One round."""
        begin, t = time.perf_counter(), self.t + 1
        gradient, self.statistics = self.task.gradients(self.carrier.vector().unsqueeze(0), self.statistics, t)
        with self.collectives.counting():
            self.strategy.step(clipped(gradient, self.clip)[0, 0], self.step_size * self._schedule(t))
        self.t, self.seconds = t, self.seconds + time.perf_counter() - begin

    def rows(self, measures: bool) -> list[dict[str, float | int]]:
        """The row of the model after t rounds; none on ranks that do not measure it.

        Bits are those of the worker that handed in most so far, and of the one that was given back most.
        """
        totals = [self.collectives.handed.total(), self.collectives.given.total()]
        most = torch.tensor(totals, device=self.task.device)
        with contact():
            dist.all_reduce(most, dist.ReduceOp.MAX)
        if not measures:
            return []
        up, down = most.tolist()
        x, statistics = self.carrier.vector().unsqueeze(0), self.statistics[..., 0, :]
        measured = {name: values.item() for name, values in self.task.evaluate(x, statistics).items()}
        if wrong := [name for name, value in measured.items() if not math.isfinite(value)]:
            raise RunError(f"round {self.t}: {wrong[0]} is {measured[wrong[0]]}. A smaller step size avoids it")
        counted = {"bits_up": 8 * up, "bits_down": 8 * down, "bits": 8 * (up + down), "payload_bytes": up + down}
        about = {"round": self.t, "epoch": self.task.epoch(self.t), **counted, "seconds": self.seconds}
        return [{**about, "trial": 0, "lr": self.lr, "step_size": self.step_size, **measured}]
