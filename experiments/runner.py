"""One run from configuration to finished folder: skipped, resumed or begun, and stopped without loss."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from experiments import identity
from experiments.build import build_algorithm, build_task
from experiments.config import Config
from experiments.environment import environment
from experiments.errors import Interrupted, UsageError
from experiments.progress import Display
from experiments.results import RunFolder
from experiments.trainer import Trainer


def run(config: Config, display: Display) -> RunFolder:
    """Bring the run of a checked configuration to its end, whatever of it is already there.

    A finished run is left as it is. Ctrl-C and termination end it after the round at hand with Interrupted. Whatever
    ends it early, the last whole round is checkpointed first, and the same call goes on from there.
    """
    folder = RunFolder(identity.folder(config))
    display.begin(f"{config['task']['name']} · {config['algorithm']['name']}")
    trainer = None if folder.status() == "finished" else _trainer(config)
    with folder.locked():
        if trainer is None or folder.status() == "finished":
            display.say(f"already finished: {folder.path}")
            display.advance(config["rounds"])
            folder.describe(config)
        else:
            _train(trainer, config, folder, display)
    return folder


def _trainer(config: Config) -> Trainer:
    """Everything built and checked, with nothing yet on disk."""
    if config["threads"]:
        torch.set_num_threads(config["threads"])
    task = build_task(config)
    algorithm = build_algorithm(config, task.sizes)
    try:
        unit = task.step_unit(algorithm.uplink.compressor)
        return Trainer(
            task,
            algorithm,
            lrs=[lr * unit for lr in config["lr"]],
            rounds=config["rounds"],
            schedule=config["lr_schedule"],
            seed=config["seed"],
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _train(trainer: Trainer, config: Config, folder: RunFolder, display: Display) -> None:
    state = folder.resume()
    folder.describe(config)
    if state is None:
        folder.begin({**environment(), **trainer.task.facts()})
    else:
        try:
            trainer.load_state_dict(state)
        except (KeyError, TypeError, RuntimeError) as error:
            raise folder.unusable(error) from error
        folder.note_resume(trainer.t, environment())
        display.say(f"resumed at round {trainer.t}: {folder.path}")
    display.advance(trainer.t)
    folder.set_status("running", round=trainer.t)
    snapshot = folder.snapshot(trainer.state_dict())
    try:
        if state is None:
            folder.append(trainer.evaluate())
            snapshot = folder.snapshot(trainer.state_dict())
        with _stop_requests() as requests:
            while trainer.t < trainer.rounds:
                _round(trainer, folder, config["eval_every"])
                snapshot = folder.snapshot(trainer.state_dict())
                if trainer.t % config["checkpoint_every"] == 0:
                    folder.save(snapshot)
                display.advance(1)
                if requests:
                    break
        if trainer.t < trainer.rounds:
            raise Interrupted(f"stopped after round {trainer.t}; the same command goes on: {folder.path}")
    except BaseException as error:
        if snapshot["metrics_size"]:  # else the next try begins with the first evaluation again
            folder.save(snapshot)
        stopped = isinstance(error, (Interrupted, KeyboardInterrupt))
        folder.set_status(
            "interrupted" if stopped else "failed", round=snapshot["state"]["t"], error=str(error) or repr(error)
        )
        raise
    folder.save(snapshot)
    folder.finish(_summary(folder.rows(), trainer.lrs))
    if requests:
        raise Interrupted(f"stopped; this run was just finished: {folder.path}")


def _round(trainer: Trainer, folder: RunFolder, eval_every: int) -> None:
    """One round, and its rows where they are due: every `eval_every` rounds and after the last."""
    due = (trainer.t + 1) % eval_every == 0 or trainer.t + 1 == trainer.rounds
    trainer.step(diagnose=due)
    if due:
        folder.append(trainer.evaluate())


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


def _summary(rows: list[dict], lrs: list[float]) -> dict:
    """Final and best metrics of every trial, total bits and seconds."""
    best = {"train_loss": min, "grad_norm": min, "train_accuracy": max, "test_loss": min, "test_accuracy": max}
    trials = []
    for trial, lr in enumerate(lrs):
        mine = [row for row in rows if row["trial"] == trial]
        trials.append(
            {
                "lr": lr,
                "final": mine[-1],
                "best": {name: pick(row[name] for row in mine) for name, pick in best.items() if name in mine[-1]},
            }
        )
    last = rows[-1]
    return {**{name: last[name] for name in ("bits", "payload_bytes", "seconds")}, "trials": trials}
