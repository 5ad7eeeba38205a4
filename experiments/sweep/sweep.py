"""A sweep from its cells to their results: what is missing is run, what failed is listed."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

from rich.console import Console

from common import tables
from common.errors import Interrupted, RunError, UsageError
from common.progress import Display, duration
from experiments.cluster.launch import Launch, launch
from experiments.config.compose import Config
from experiments.planning import cost as plan
from experiments.sweep import selection, slurm
from experiments.sweep.folder import SweepFolder
from experiments.sweep.grid import Cell
from experiments.sweep.job import Job, command, cores, environment, gpus
from experiments.sweep.pool import run_jobs
from experiments.training.build import device_of
from plots.runs.choose import best
from plots.runs.read import open_run


def sweep(cells: list[Cell], launching: Config) -> None:
    """Bring every cell to its end in a process of its own, `jobs` at once; those already finished need none.

    With `dry_run` or `submit` they are shown, or handed to SLURM, instead.
    Raises UsageError where the cells do not fit the launch, before anything is started; RunError where some failed,
    once all others are done; and Interrupted where the user stopped it. The same call goes on.
    """
    _check(cells, launching)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    cells = _distinct(cells, console)
    if launching["dry_run"]:
        plan.show([cell.config for cell in cells], launching, Console())
        return
    folder = SweepFolder(cells[0].config["results_dir"], cells[0].config["study"])
    with folder.locked():
        folder.freeze(cells)
        if launching["submit"]:
            slurm.submit([cell.config for cell in cells], launching, folder.path, console)
        else:
            _run(cells, launching, folder, console)


def _run(cells: list[Cell], launching: Config, folder: SweepFolder, console: Console) -> None:
    """Run what is missing, and say what failed and what is best."""
    with Display(len(cells), console) as display:
        jobs = _Jobs(cells, launching, folder, display)
        interrupted = jobs.run()
    jobs.list_failures()
    left = sum(not cell.is_finished for cell in cells)
    if interrupted:
        raise Interrupted(f"stopped; {left} of {len(cells)} runs are left, with which the same command goes on")
    if launching.get("select") and left <= len(jobs.failed):
        choices = selection.select(Path(cells[0].config["results_dir"]), folder.study, launching["select"])
        overrides = {cell.id: cell.overrides for cell in cells}
        selection.report(choices, folder.path / "selection.csv", Console(), overrides)
    if jobs.failed:
        others = "the others are done" if left <= len(jobs.failed) else f"{left} are left; the same command goes on"
        raise RunError(f"{len(jobs.failed)} of {len(cells)} runs failed, see above; {others}")


def _check(cells: list[Cell], launching: Config) -> None:
    if launch():
        raise UsageError("a sweep starts its ranks itself: leave torchrun or srun out, and set ranks=2, say")
    if launching["submit"]:
        slurm.check(launching["slurm"])
    place = Launch(0, launching["ranks"], 0, launching["ranks"], address="", port=0)
    for cell in cells:
        place.check(cell.config["cluster"]["workers"])
        if not launching["submit"]:  # which is for other machines
            device_of(cell.config, place.local_size - 1)
        for key in ("results_dir", "study"):
            if cell.config[key] != cells[0].config[key]:
                raise UsageError(f"{key}={cell.config[key]}: must be the same for all runs of a sweep")


def _distinct(cells: list[Cell], console: Console) -> list[Cell]:
    """The cells without those that are the same run as one before, which are named."""
    first: dict[str, Cell] = {}
    for cell in cells:
        if first.setdefault(cell.id, cell) is not cell:
            console.print(f"{cell.name}: the same run as {first[cell.id].name}, done once", markup=False)
    return list(first.values())


class _Jobs:
    """Runs what is missing, says what came of it and keeps what failed."""

    def __init__(self, cells: list[Cell], launching: Config, folder: SweepFolder, display: Display) -> None:
        self.failed: list[tuple[Cell, Job, str]] = []
        self._at_once = min(launching["jobs"], len(cells))
        self._cells, self._launching, self._folder, self._display = cells, launching, folder, display
        self._waiting = [cell for cell in cells if not cell.is_finished]
        self._ended = 0

    def run(self) -> bool:
        """Run them. Returns whether the user stopped it."""
        jobs = {self._job(cell): cell for cell in self._waiting}
        for cell in self._cells:
            if cell not in self._waiting:
                self._check_metric(cell)
        todo = f"{len(jobs)} of {len(self._cells)} runs to do, {self._launching['jobs']} at once"
        self._display.say(f"{todo if jobs else f'all {len(self._cells)} runs are finished'}; {self._folder.path}")
        self._advance(len(self._cells) - len(jobs))
        return run_jobs(
            list(jobs),
            self._at_once,
            self._launching["job_timeout"],
            ended=lambda job: self._end(jobs[job], job),
            say=self._display.say,
        )

    def list_failures(self) -> None:
        """Print a table of them, but for those that another process has finished meanwhile."""
        self.failed = [failure for failure in self.failed if not failure[0].is_finished]
        if self.failed:
            rows = [[cell.name, why, job.error(), str(job.log)] for cell, job, why in self.failed]
            tables.show(self._display.console, ["failed", "how", "error", "log"], rows)

    def _job(self, cell: Cell) -> Job:
        ranks = self._launching["ranks"]
        surroundings = partial(environment, cell.config, jobs=self._at_once, ranks=ranks, gpus=gpus(), cores=cores())
        return Job(command(self._folder.job(cell.id), ranks), self._folder.log(cell.id), surroundings)

    def _end(self, cell: Cell, job: Job) -> bool:
        """Take note of one that has ended. Returns whether to go on with the others."""
        if cell.is_finished and (job.asked or job.code == 0):
            self._check_metric(cell)
            said = self._outcome(cell)
        elif job.asked and not job.timed_out:
            return True
        else:
            how = _how(job)
            self.failed.append((cell, job, how))
            said = f"failed, {': '.join(filter(None, [how, job.error()]))}"
        self._advance(1)
        self._display.say(f"{self._ended} of {len(self._cells)}  {cell.name}: {said}  ({duration(job.seconds)})")
        return not (self._launching["fail_fast"] and self.failed)

    def _check_metric(self, cell: Cell) -> None:
        """Raise UsageError as soon as a run says that it does not have what is to be selected by."""
        if self._launching.get("select"):
            best([open_run(cell.run.path)], self._launching["select"])

    def _outcome(self, cell: Cell) -> str:
        """What a finished run came to with its best step size, in words."""
        said, lrs = cell.run.outcome(), cell.config["lr"]
        [choice] = best([open_run(cell.run.path)], self._launching.get("select"))
        which = lrs.index(choice.lr) if choice.lr in lrs else 0
        return said[which] + (f", best of {len(said)} step sizes" if len(said) > 1 else "")

    def _advance(self, ended: int) -> None:
        self._ended += ended
        if self._display.console.is_terminal:
            left = len(self._cells) - self._ended
            self._display.begin(f"{min(left, self._launching['jobs'])} running")
            self._display.advance(ended)


def _how(job: Job) -> str:
    """How a job failed."""
    if job.timed_out:
        return f"timed out after {duration(job.seconds)}"
    if job.code < 0:
        return f"killed by {signal.Signals(-job.code).name}"
    return f"exit status {job.code}" if job.code else "left no finished run; was code edited meanwhile?"
