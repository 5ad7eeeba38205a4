"""Cells from their configurations to their results: what is missing is run, what failed is listed."""

from __future__ import annotations

import signal
import time
from functools import partial

from rich.console import Console

from common import tables
from common.errors import Interrupted, RunError, UsageError
from common.progress import Display, duration
from experiments.cluster.launch import Launch as Place
from experiments.cluster.launch import launch as place_of
from experiments.config.schema import Launch, Run
from experiments.planning import cost
from experiments.record.folder import RunFolder
from experiments.sweep.cells import Cell, cells
from experiments.sweep.folder import StudyFolder
from experiments.sweep.job import Job, command, cores, environment, gpus
from experiments.sweep.pool import run_jobs
from experiments.training.build import check, device_of


def alone(run: Run, launch: Launch) -> RunFolder:
    """Bring one run to its end in processes of its own. Raises as `sweep` does, and RunError where it failed."""
    [cell] = cells([[]], [run], study=run.algorithm.name)
    if sweep([cell], launch):
        raise RunError("the run failed, see above")
    return cell.folder


def sweep(cells: list[Cell], launch: Launch) -> list[Cell]:
    """Bring every cell to its end in a process of its own, `jobs` at once; those already finished need none.

    Returns those that failed, once all others are done. With `dry_run` they are shown instead.
    Raises UsageError where the cells do not fit the launch, before anything is started, and Interrupted where the
    user stopped it. The same call goes on.
    """
    _check(cells, launch)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    distinct = _distinct(cells, console)
    if launch.dry_run:
        cost.show([cell.run for cell in distinct], launch, Console())
        return []
    folder = StudyFolder(cells[0].run.results_dir, str(cells[0].run.study))
    with folder.locked(), Display(sum(cell.run.rounds for cell in distinct), console) as display:
        folder.freeze(distinct)
        jobs = _Jobs(distinct, launch, folder, display)
        interrupted = jobs.run()
    failed = jobs.list_failures()
    left = sum(not cell.is_finished for cell in distinct)
    if interrupted:
        raise Interrupted(f"stopped; {left} of {len(distinct)} runs are left, with which the same command goes on")
    if left > len(failed):
        raise RunError(f"{len(failed)} of {len(distinct)} runs failed, {left} are left; the same command goes on")
    return failed


def _check(cells: list[Cell], launch: Launch) -> None:
    if place_of():
        raise UsageError("a sweep starts its ranks itself: leave torchrun or srun out, and set ranks=2, say")
    place = Place(0, launch.ranks, 0, launch.ranks, address="", port=0)
    for cell in cells:
        check(cell.run)
        place.check(cell.run.cluster.workers)
        device_of(cell.run, place.local_size - 1)
        for key in ("results_dir", "study"):
            if getattr(cell.run, key) != getattr(cells[0].run, key):
                raise UsageError(f"{key}={getattr(cell.run, key)}: must be the same for all runs of a sweep")


def _distinct(cells: list[Cell], console: Console) -> list[Cell]:
    """The cells without those that are the same run as one before, which are named."""
    first: dict[str, Cell] = {}
    for cell in cells:
        if first.setdefault(cell.id, cell) is not cell:
            console.print(f"{cell.name}: the same run as {first[cell.id].name}, done once", markup=False)
    return list(first.values())


class _Jobs:
    """Runs what is missing, says what came of it and keeps what failed."""

    def __init__(self, cells: list[Cell], launch: Launch, folder: StudyFolder, display: Display) -> None:
        self._failed: list[tuple[Cell, Job, str]] = []
        self._cells, self._launch, self._folder, self._display = cells, launch, folder, display
        self._at_once = min(launch.jobs, len(cells))
        self._waiting = [cell for cell in cells if not cell.is_finished]
        self._ended = len(cells) - len(self._waiting)
        self._rounds = dict.fromkeys(cells, 0)
        self._looked = 0.0

    def run(self) -> bool:
        """Run them. Returns whether the user stopped it."""
        jobs = {self._job(cell): cell for cell in self._waiting}
        todo = f"{len(jobs)} of {len(self._cells)} runs to do, {self._at_once} at once"
        self._display.say(f"{todo if jobs else f'all {len(self._cells)} runs are finished'}; {self._folder.path}")
        for cell in self._cells:
            if cell not in self._waiting:
                cell.choice(self._launch.select)  # an error before anything starts
                self._advance(cell, cell.run.rounds)
        return run_jobs(
            list(jobs),
            self._at_once,
            self._launch.job_timeout,
            ended=lambda job: self._end(jobs[job], job),
            watch=self._watch,
            say=self._display.say,
        )

    def list_failures(self) -> list[Cell]:
        """Print a table of them, but for those that another process has finished meanwhile."""
        failed = [failure for failure in self._failed if not failure[0].is_finished]
        if failed:
            rows = [[cell.name, why, job.error(), str(job.log)] for cell, job, why in failed]
            tables.show(self._display.console, ["failed", "how", "error", "log"], rows)
        return [cell for cell, *_ in failed]

    def _job(self, cell: Cell) -> Job:
        ranks = self._launch.ranks
        surroundings = partial(environment, cell.run, jobs=self._at_once, ranks=ranks, gpus=gpus(), cores=cores())
        started = command(self._folder.job(cell.id), ranks, cell.run.packages)
        return Job(started, self._folder.log(cell.id), surroundings)

    def _end(self, cell: Cell, job: Job) -> bool:
        """Take note of one that has ended. Returns whether to go on with the others."""
        if cell.is_finished and (job.asked or job.code == 0):
            said = cell.outcome(self._launch.select)
        elif job.asked and not job.timed_out:
            return True
        else:
            how = _how(job)
            self._failed.append((cell, job, how))
            said = f"failed, {': '.join(filter(None, [how, job.error()]))}"
        self._ended += 1
        self._advance(cell, cell.run.rounds)
        self._display.say(f"{self._ended} of {len(self._cells)}  {cell.name}: {said}  ({duration(job.seconds)})")
        return not (self._launch.fail_fast and self._failed)

    def _watch(self) -> None:
        """Once a second, how far the runs have come by their last rows."""
        if time.monotonic() - self._looked < 1:
            return
        self._looked = time.monotonic()
        for cell in self._waiting:
            if self._rounds[cell] < cell.run.rounds:
                self._advance(cell, cell.folder.round())

    def _advance(self, cell: Cell, round: int) -> None:
        if left := len(self._cells) - self._ended:
            self._display.begin(f"{min(left, self._at_once)} running")
        self._display.advance(max(0, round - self._rounds[cell]))
        self._rounds[cell] = max(round, self._rounds[cell])


def _how(job: Job) -> str:
    """How a job failed."""
    if job.timed_out:
        return f"timed out after {duration(job.seconds)}"
    if job.code < 0:
        return f"killed by {signal.Signals(-job.code).name}"
    return f"exit status {job.code}" if job.code else "left no finished run; was code edited meanwhile?"
