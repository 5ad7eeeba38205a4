"""Run folders shown in wandb, those of finished runs and of runs under way alike."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import wandb
from filelock import FileLock

from experiments.config.sources import path_of
from experiments.loggers.layout import BITS, Options, add_to, arguments, named
from experiments.loggers.rows import rows
from experiments.loggers.service import end_service, mode_and_reason, one_line
from plots.runs.read import RunRecord, open_run

ROOT = str(Path(__file__).resolve().parents[2])


class Curve:
    """A trial of a run as one run of wandb.

    A run with one step size is one curve with the run's id. A grid of step sizes, trained as one batch, is as many,
    `<id>-<trial>`, all open at once: wandb compares runs, not lines within one.

    Every row is one call that holds x and y, never with a step of ours, so that wandb's own step counts rows. Where
    it already has rows of this id, those are not sent again: the rows of an id are always the same.
    """

    def __init__(self, run: RunRecord, trial: int, options: Options, mode: Any, watched: int | None) -> None:
        """Begin it in `<folder>/wandb`; `watched` is the process whose machine is measured, None for no measuring.

        Raises whatever wandb does, and UsageError.
        """
        settings = _settings(options, options["git"] and run.environment.get("commit"), watched)
        told = arguments(run, trial, options, os.environ)
        self.run = wandb.init(
            **told, mode=mode, resume="allow", dir=str(run.folder), settings=settings, reinit="create_new"
        )
        self.run.define_metric(BITS)
        self.run.define_metric("*", step_metric=BITS)
        self._folder, self._with_model = run.folder, options["model"]
        # Files are copied here and now, when they are those that the run was begun with.
        self._source = _source(run.folder) if options["code"] and watched is not None else None
        self._targets, self._summary = options["targets"], {}
        self._rows = 0

    @property
    def sent(self) -> int:
        """How many rows wandb did not have before."""
        return max(0, self._rows - self.run.starting_step)

    def log(self, row: Mapping[str, Any]) -> None:
        """The next row of metrics.jsonl, from its first one on."""
        add_to(self._summary, row, self._targets)
        self._rows += 1
        if self.sent:
            self.run.log(named(row))

    def finish(self, status: str) -> None:
        """Add the summary and what is wanted besides, and end the run, for wandb as failed where it was stopped or
        failed.

        Raises TimeoutError where wandb did not take all of it in time.
        """
        self.run.summary.update({"status": status, **self._summary})
        try:
            for artifact in self._artifacts():
                self.run.log_artifact(artifact)
        finally:
            self.run.finish(exit_code=int(status in ("interrupted", "failed")))

    def _artifacts(self) -> Iterator[wandb.Artifact]:
        """The source and the last checkpoint, where they are wanted."""
        if self._source:
            yield self._source
        if self._with_model and (self._folder / "checkpoint").is_dir():
            model = wandb.Artifact(f"model-{self.run.id}", "model")
            model.add_dir(str(self._folder / "checkpoint"))
            yield model


class Mirror:
    """Mirrors folders one after the other; once wandb could not be reached, all further ones offline.

    mode: that of conf/logger/wandb.yaml; watched: the process of a run that goes on. Raises UsageError for a wrong
    setting of wandb.
    """

    def __init__(self, mode: str | None, watched: int | None = None) -> None:
        self._mode, self.reason = mode_and_reason(mode)
        self._watched = watched

    @property
    def is_cut_off(self) -> bool:
        """Whether it is offline, for `reason`, though nobody asked for that."""
        return self._mode == "offline" and self.reason != "as asked"

    def show(
        self,
        folder: Path,
        options: Options,
        say: Callable[[str], None],
        ended: Callable[[], bool] = lambda: True,
        patience: float = 0,
    ) -> int:
        """Send the rows of metrics.jsonl until `ended`, which may wait a while, and then the summary.

        Returns how many rows were not there before. Another process at the same folder is waited for, `patience`
        seconds. Raises whatever wandb does, filelock.Timeout, and TimeoutError where wandb did not take everything in
        time.
        """
        with FileLock(folder / ".wandb.lock", timeout=patience):
            try:
                curves = self._begin(folder, options)
            except Exception as error:
                if self._mode != "online":
                    raise
                end_service()  # which would otherwise hold on to the ids
                self._mode, self.reason = "offline", f"it could not begin online ({one_line(error)})"
                curves = self._begin(folder, options)
            if self._mode == "online":
                say(f"wandb: {curves[0].run.url}" + (f" and {len(curves) - 1} more" if len(curves) > 1 else ""))
            else:
                by_file = f"wandb sync {folder}/wandb/offline-run-*"  # which would append to what it sent before
                rest = f"to send it: python -m experiments.upload {folder} (once: {by_file})"
                say(f"wandb: {self._mode}, {self.reason}; {rest}")
            try:
                for row in rows(folder / "metrics.jsonl", ended):
                    curves[row["trial"]].log(row)
            finally:
                status = open_run(folder).status["status"]
                with ThreadPoolExecutor(len(curves)) as pool:  # all at once, so that they have the time of one
                    list(pool.map(lambda curve: curve.finish(status), curves))
        return sum(curve.sent for curve in curves)

    def show_figure(self, folder: Path, options: Options) -> int:
        """Send a figure's files as an artifact, and its picture, as a run of their own. Returns how many files.

        Raises whatever wandb does.
        """
        files = sorted(file for file in folder.iterdir() if file.is_file())
        told: dict[str, Any] = {name: options[name] for name in ("project", "entity", "group", "tags", "notes")}
        told["mode"] = self._mode
        shown = wandb.init(
            **told,
            id=f"figure-{folder.name}",
            name=options["name"] or folder.name,
            job_type=options["job_type"] or "figure",
            resume="allow",
            dir=str(folder),
            settings=_settings(options),
            reinit="create_new",
        )
        try:
            artifact = wandb.Artifact(f"figure-{folder.name}", "figure")
            for file in files:
                artifact.add_file(str(file), file.name)
            shown.log_artifact(artifact)
            shown.log({file.stem: wandb.Image(str(file)) for file in files if file.suffix == ".png"})
        finally:
            shown.finish(exit_code=0)
        return len(files)

    def _begin(self, folder: Path, options: Options) -> list[Curve]:
        """One a step size. What an earlier mirror left on this machine is removed: wandb cannot append to an offline
        run, and its rows are those that are sent again here."""
        run = open_run(folder)
        shutil.rmtree(folder / "wandb", ignore_errors=True)
        return [Curve(run, trial, options, self._mode, self._watched) for trial in range(len(run.lrs))]


def _source(folder: Path) -> wandb.Artifact:
    """The modules in code.json, under a name that their digests give, so that wandb keeps them once."""
    listed = (folder / "code.json").read_bytes()
    source = wandb.Artifact(f"source-{hashlib.sha256(listed).hexdigest()[:16]}", "source")
    for module in json.loads(listed):
        if file := path_of(module.removesuffix(".__init__")):
            source.add_file(str(file), f"{module.replace('.', '/')}.py")
    return source


def _settings(options: Options, commit: str | None = None, watched: int | None = None) -> wandb.Settings:
    """Nothing on the terminal, and nothing told of this machine but a run's commit and what the process `watched`
    takes, where these are wanted."""
    return wandb.Settings(
        silent=True,
        console="off",
        disable_code=True,
        disable_git=not commit,
        git_commit=commit or None,
        git_root=ROOT if commit else None,
        host="",
        symlink=False,
        init_timeout=options["init_timeout"],
        finish_timeout=options["finish_timeout"],
        finish_timeout_raises=True,
        x_disable_meta=True,
        x_disable_stats=not (options["system"] and watched),
        x_disable_machine_info=not commit,  # wandb takes git for a part of it; the rest is in x_disable_meta
        x_stats_pid=watched or os.getpid(),
        x_save_requirements=False,
    )
