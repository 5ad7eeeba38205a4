"""Train one run into its folder: skip, resume or begin it, and stop it without loss."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import torch

from algorithms.comm.gather_broadcast import LostContact
from algorithms.comm.sharded_server import describe_exchange
from algorithms.core.algorithm import leaves
from common.errors import Diverged, Interrupted, RunError, explain_lost_contact
from common.progress import Display
from common.signals import stop_requests
from experiments.cluster.ranks import Ranks
from experiments.config import identity
from experiments.config.run import config_of
from experiments.config.schema import RunConfig
from experiments.loggers.logger import Row, build_logger, open_logger
from experiments.run_store.code import digests, find_edits, join_edits
from experiments.run_store.environment import environment, versions
from experiments.run_store.folder import RunFolder
from experiments.training.build import build_trainer, declare_columns, release_and_explain
from experiments.training.threads import set_threads
from experiments.training.trainer import Trainer
from plots.runs.columns import column, higher_is_better


def bring_to_end(
    run: RunConfig,
    display: Display,
    ranks: Ranks | None = None,
    build: Callable[[RunConfig, Ranks], Trainer] = build_trainer,
) -> RunFolder:
    """Begin a run, resume it if it was stopped, or skip it if it is finished.

    If it ends early, its last whole round is saved, and the same call resumes there. If one of several ranks fails,
    it resumes from the last checkpoint. Raises Interrupted after the current round if any rank was asked to stop.
    """
    ranks = ranks or Ranks()
    folder = RunFolder.of_run(run, ranks)
    logger = build_logger(run) if ranks.is_first else None
    display.begin(f"{run.task.name} · {run.algorithm.name}")
    try:
        if ranks.size > 1:
            ranks.agree(_settings(run))
        trainer = None
        if not ranks.from_first(folder.is_finished()):
            digests(run.packages)  # now, so that an edit while data are loaded is not recorded
            trainer = build(run, ranks)
        if trainer is None and not ranks.from_first(folder.is_writable()):
            display.say(f"already finished, and its folder cannot be written: {folder.path}")
            display.skip(run.rounds)
            return folder
        with folder.lock():
            if trainer is None or ranks.from_first(folder.is_finished()):
                display.say(f"already finished: {folder.path}")
                with open_logger(logger, folder.path, display.say):
                    pass  # shows its rows, if it ran without this logger
                display.skip(run.rounds)
                folder.write_config(config_of(run), only=("algorithm", "task"))
                folder.tidy(keep=1)
            else:
                if folder.aside:
                    display.say(f"run anew, {join_edits(folder.edits)}; the older run is in {folder.aside}")
                if edits := find_edits(digests(run.packages)):
                    raise RunError(f"{join_edits(edits)} since this process imported it; start a new process")
                with set_threads(run, trainer):
                    fresh = _begin(trainer, run, folder, display, ranks)
                    with open_logger(logger, folder.path, display.say) as log:
                        _Rounds(trainer, run, folder, display, ranks, log).run(fresh)
    except LostContact as error:
        raise RunError(f"{explain_lost_contact(error)}: {folder.path}") from error
    except torch.OutOfMemoryError as error:
        trainer = None
        raise RunError(f"{folder.path}: {release_and_explain(error)}") from error
    return folder


def _begin(trainer: Trainer, run: RunConfig, folder: RunFolder, display: Display, ranks: Ranks) -> bool:
    """Load the last checkpoint into trainer and folder. Return whether there was none."""
    state, ids = trainer.state_dict(), trainer.cluster.ids
    resumed = trainer.is_resumable and folder.resume(state, ids, trainer.load_state_dict)
    folder.tidy()
    folder.write_config(config_of(run))
    facts = {**environment(), "ranks": ranks.size, "device": str(trainer.task.device)}
    columns = declare_columns(trainer.task)
    data = trainer.task.facts()
    shared = {**data, "device": trainer.task.device.type}
    ranks.agree({**shared, "round of the checkpoint": trainer.t if resumed else "none"})
    if not resumed:
        algorithm, d = trainer.cluster.algorithm, trainer.task.d
        stages = sum(len(algorithm.stages(t)) for t in range(1, run.rounds + 1)) / run.rounds
        sizes = {"d": d, **describe_exchange(algorithm, d, trainer.task.dtype)._asdict()}
        sizes |= {"stages": stages} if stages else {}  # an external strategy's exchanges are unknown
        folder.begin(run.packages, {**facts, **sizes, **columns, **data})
    else:
        if not ranks.from_first(folder.began_with_data(data.get("data_sha256"))):
            raise RunError(f"{folder.path}: its data changed since it began; restore them, or delete the folder")
        folder.note_resume(trainer.t, facts)
        display.say(f"resumed at round {trainer.t}: {folder.path}")
    display.skip(trainer.t)
    folder.set_status("running", round=trainer.t)
    return not resumed


class _Rounds:
    """The remaining rounds of a run. However they end, the folder stays whole."""

    def __init__(
        self,
        trainer: Trainer,
        run: RunConfig,
        folder: RunFolder,
        display: Display,
        ranks: Ranks,
        log: Callable[[Iterable[Row]], None],
    ) -> None:
        self._trainer, self._run, self._folder = trainer, run, folder
        self._display, self._ranks, self._log = display, ranks, log
        self._snapshot = self._take_snapshot()  # of the last round that is verified

    def run(self, fresh: bool) -> None:
        """Train the rounds, after an evaluation if the run is fresh. Raises Interrupted if it was stopped."""
        trainer, folder = self._trainer, self._folder
        try:
            stopped = self._train(fresh)
            is_over = trainer.t == trainer.rounds
            summary = summarise(folder.rows(), trainer.lrs) if is_over and self._ranks.is_first else {}
            folder.save(self._snapshot, trainer.cluster.ids)
            if is_over:
                folder.finish(self._run.packages, summary)
        except BaseException as error:
            self._record_failure(error)
            raise
        if not is_over:
            message = f"stopped after round {trainer.t}; the same command goes on: {folder.path}"
            folder.set_status("interrupted", round=trainer.t, error=message)
            raise Interrupted(message)
        folder.tidy(keep=1)
        if stopped:
            raise Interrupted(f"stopped; this run was just finished: {folder.path}")

    def _train(self, fresh: bool) -> bool:
        """Train to the end, or until a signal asks to stop. Return whether one did."""
        trainer, ranks, stopping = self._trainer, self._ranks, False
        ranks.any(False, trainer.fingerprints)
        if fresh:
            self._evaluate()
            self._snapshot = self._take_snapshot()
        with stop_requests(most=1) as requests:
            while trainer.t < trainer.rounds and not stopping:
                stopping = self._round(requests)
                self._display.advance(1)
        trainer.verify()
        ranks.any(False, trainer.fingerprints)
        self._snapshot = self._take_snapshot()
        return stopping

    def _round(self, requests: list[int]) -> bool:
        """Train one round, and evaluate and save if due. Return whether any rank was asked to stop."""
        trainer, run, ranks = self._trainer, self._run, self._ranks
        due = run.is_due(trainer.t + 1)
        trainer.step(diagnose=due)
        saves = trainer.t % run.checkpoint_every == 0
        compared = due or saves or (run.verify_every and trainer.t % run.verify_every == 0)
        # Ranks are compared before anything of this round is kept.
        if compared:
            trainer.wait()  # comparing would wait without counting the time
        stop = bool(requests)
        stopping = ranks.any(stop, trainer.fingerprints) if compared else ranks.any_before(stop)
        if due:
            self._evaluate()
        if saves:
            trainer.verify()
            self._folder.save(self._take_snapshot(), trainer.cluster.ids)
        if trainer.verified:
            self._snapshot = self._take_snapshot()
        return stopping

    def _evaluate(self) -> None:
        rows = self._trainer.evaluate()
        self._folder.append(rows)  # first: a logger may fail
        self._log(rows)

    def _take_snapshot(self) -> dict:
        return self._folder.snapshot(self._trainer.state_dict())

    def _record_failure(self, error: BaseException) -> None:
        """Save the last verified round and record the error that ended the run."""
        folder, ranks, round = self._folder, self._ranks, self._snapshot["t"]
        folder.check_exists()
        # On a full disk the checkpoint before stays, and the status may still fit. A lost GPU raises again here, and
        # the first error is the one to report.
        with suppress(OSError, RuntimeError):
            # Without rows the next try begins with the first evaluation again.
            if self._snapshot["metrics_size"] and ranks.size == 1:
                folder.save(self._snapshot, self._trainer.cluster.ids)
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        with suppress(OSError):
            said = str(error) or repr(error)
            more = {"diverged": True} if isinstance(error, Diverged) else {}
            folder.set_status(status, round=round, error=said, **more)
            if ranks.is_first and (who := ranks.silent_ranks(error)):  # takes seconds, so it comes second
                folder.set_status(status, round=round, error=f"{who}; {said}")


def _settings(run: RunConfig) -> dict[str, object]:
    """Return the facts that all ranks must share before loading: settings, code and versions."""
    settings = identity.settings(run) | {name: getattr(run, name) for name in ("checkpoint_every", "verify_every")}
    settings |= {"cluster.server": run.cluster.server}
    return {
        **dict(leaves(settings)),
        **{f"{module.replace('.', '/')}.py": digest for module, digest in digests(run.packages).items()},
        **versions(),
    }


def summarise(rows: Iterable[dict], lrs: Sequence[float]) -> dict:
    """Return final and best metrics of every trial, whether its loss ends above its start, total bits and seconds."""
    first: dict[int, dict] = {}
    final: dict[int, dict] = {}
    best: dict[int, dict] = {}
    for row in rows:  # one at a time, because all may not fit into memory
        final[row["trial"]] = row
        first.setdefault(row["trial"], row)
        reached = best.setdefault(row["trial"], {})
        for name, value in row.items():
            if column(name).filled_by == "task" and column(name).better:
                better = max if higher_is_better(name) else min
                reached[name] = better(reached.get(name, value), value)
    trials = [
        {
            "lr": lr,
            "final": final[trial],
            "best": best[trial],
            "ends_above_its_start": final[trial].get("train_loss", 0) > first[trial].get("train_loss", 0),
        }
        for trial, lr in enumerate(lrs)
    ]
    return {**{name: final[len(lrs) - 1][name] for name in ("bits", "payload_bytes", "seconds")}, "trials": trials}
