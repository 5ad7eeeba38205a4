"""One run from configuration to finished folder: skipped, resumed or begun, and stopped without loss."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from types import FrameType

from algorithms.wire import LostContact
from common.errors import Interrupted, RunError, lost_contact
from common.progress import Display
from experiments.cluster.ranks import Ranks
from experiments.config import identity
from experiments.config.evaluations import is_due
from experiments.config.run import plain
from experiments.config.schema import Run
from experiments.loggers.logger import Logger, build_logger
from experiments.record.environment import environment
from experiments.record.folder import RunFolder
from experiments.tasks.task import Task
from experiments.training.build import build_trainer
from experiments.training.memory import explained
from experiments.training.trainer import Trainer
from plots.runs.columns import column, declare, higher_is_better


def bring_to_end(run: Run, display: Display, ranks: Ranks | None = None) -> RunFolder:
    """Bring the run of a checked configuration to its end, whatever of it is already there.

    A finished run is left as it is. Ctrl-C and termination, of any rank, end it after the round at hand with
    Interrupted. Whatever ends it early, the last whole round is checkpointed first, and the same call goes on from
    there; where one of several ranks fails, whose workers' memories are then missing, it is the checkpoint before.
    """
    ranks = ranks or Ranks()
    folder = RunFolder(identity.folder(run), ranks)
    logger = build_logger(run) if ranks.is_first else Logger()
    display.begin(f"{run.task.name} · {run.algorithm.name}")
    try:
        with explained():
            trainer = None if ranks.told(folder.is_finished()) else build_trainer(run, ranks)
        with folder.locked():
            if trainer is None or ranks.told(folder.is_finished()):
                display.say(f"already finished: {folder.path}")
                logger.skipped(folder.path, display.say)
                display.advance(run.rounds)
                folder.describe(plain(run), keep=("study", "logger"))
            else:
                with explained(trainer):
                    fresh = _begin(trainer, run, folder, display, ranks)
                    with logger.mirroring(folder.path, display.say):
                        _train(trainer, run, folder, display, ranks, fresh)
    except LostContact as error:
        raise RunError(f"{lost_contact(error)}: {folder.path}") from error
    return folder


def _begin(trainer: Trainer, run: Run, folder: RunFolder, display: Display, ranks: Ranks) -> bool:
    """Bring trainer and folder to the last checkpoint. Returns whether there was none."""
    state = folder.resume(trainer.cluster.ids, trainer.task.device)
    folder.describe(plain(run))
    facts = {**environment(), "ranks": ranks.size, "device": str(trainer.task.device)}
    declared = _declared(trainer.task)
    if state is None:
        folder.begin(identity.code(run), {**facts, "d": trainer.task.d, **declared, **trainer.task.facts()})
    else:
        try:
            trainer.load_state_dict(state)
        except (KeyError, TypeError, RuntimeError) as error:
            raise folder.unusable(error) from error
        folder.note_resume(trainer.t, facts)
        display.say(f"resumed at round {trainer.t}: {folder.path}")
    display.advance(trainer.t)
    folder.set_status("running", round=trainer.t)
    return state is None


def _train(trainer: Trainer, run: Run, folder: RunFolder, display: Display, ranks: Ranks, fresh: bool) -> None:
    """Do the rounds that are left, and leave the folder whole however they end."""
    ids = trainer.cluster.ids
    snapshot = folder.snapshot(trainer.state_dict())
    stopping = False
    try:
        if fresh:
            folder.append(trainer.evaluate())
            snapshot = folder.snapshot(trainer.state_dict())
        with _stop_requests() as requests:
            while trainer.t < trainer.rounds and not stopping:
                due = is_due(trainer.t + 1, run)
                trainer.step(diagnose=due)
                if due:
                    folder.append(trainer.evaluate())
                if trainer.t % run.checkpoint_every == 0:
                    trainer.verify()
                    folder.save(folder.snapshot(trainer.state_dict()), ids)
                if trainer.verified:
                    snapshot = folder.snapshot(trainer.state_dict())
                display.advance(1)
                stopping = ranks.any(bool(requests))
        trainer.verify()
        snapshot = folder.snapshot(trainer.state_dict())
    except BaseException as error:
        if snapshot["metrics_size"] and ranks.size == 1:  # else the next try begins with the first evaluation again
            with suppress(OSError):  # on a full disk the one before stays
                folder.save(snapshot, ids)
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        with suppress(OSError):
            folder.set_status(status, round=snapshot["t"], error=str(error) or repr(error))
        raise
    folder.save(snapshot, ids)
    if trainer.t < trainer.rounds:
        message = f"stopped after round {trainer.t}; the same command goes on: {folder.path}"
        folder.set_status("interrupted", round=trainer.t, error=message)
        raise Interrupted(message)
    folder.finish(_summary(folder.rows(), trainer.lrs) if ranks.is_first else {})
    if stopping:
        raise Interrupted(f"stopped; this run was just finished: {folder.path}")


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Collect Ctrl-C and termination in a list instead of breaking off in the middle of a round."""
    requests: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if requests:
            raise KeyboardInterrupt
        requests.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _declared(task: Task) -> dict:
    """The columns that a task declares, and the metric by which step sizes are selected."""
    columns = [asdict(column) for column in getattr(task, "columns", ())]
    declare(columns)
    metric = getattr(task, "metric", None)
    return {key: value for key, value in (("columns", columns), ("metric", metric)) if value}


def _summary(rows: list[dict], lrs: Sequence[float]) -> dict:
    """Final and best metrics of every trial, total bits and seconds."""
    trials = []
    for trial, lr in enumerate(lrs):
        mine = [row for row in rows if row["trial"] == trial]
        best = {
            name: (max if higher_is_better(name) else min)(row[name] for row in mine)
            for name in mine[-1]
            if column(name).filled_by == "task"
        }
        trials.append({"lr": lr, "final": mine[-1], "best": best})
    return {**{name: rows[-1][name] for name in ("bits", "payload_bytes", "seconds")}, "trials": trials}
