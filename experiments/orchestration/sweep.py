"""Runs from their configurations to their results: what is missing is run, what failed is listed."""

import signal
import time
from functools import partial

from rich.console import Console

from common import tables
from common.errors import Interrupted, RunError, UsageError
from common.progress import Display, duration
from experiments.cluster.launch import Launch as Place
from experiments.cluster.launch import launch as place_of
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import job, plan
from experiments.orchestration.job import count_jobs
from experiments.orchestration.processes import Job, run_jobs
from experiments.orchestration.study import Cell, StudyFolder, cells
from experiments.run_store.code import check_code
from experiments.training.build import check, device_of
from experiments.training.session import train_here


def train(run: RunConfig, launch: LaunchConfig) -> float:
    """Plan one run, or bring it to its end, in this process or in those of its own that `launch` asks for.

    Returns what a sweeper selects by, NaN where there is nothing. Raises UsageError before anything is started, and
    RunError where it failed.
    """
    [cell] = cells([[]], [run], study=run.algorithm.name)
    if launch.ranks > 1 or launch.job_timeout is not None:  # of which `sweep` sees what is done
        if sweep([cell], launch):
            raise RunError("the run failed, see above")
    else:
        check(run)
        if launch.dry_run:
            plan.show([cell.run], launch, Console())
        else:
            train_here(cell.run)
    return cell.value(launch.select)


def sweep(cells: list[Cell], launch: LaunchConfig) -> list[Cell]:
    """Bring every cell to its end in a process of its own, `jobs` at once; those already finished need none.

    Returns those that failed, once all others are done. With `dry_run` they are shown instead.
    Raises UsageError where the cells do not fit the launch, before anything is started, and Interrupted where the
    user stopped it. The same call goes on.
    """
    if place_of():
        raise UsageError("a sweep starts its own ranks: leave out torchrun or srun, and set ranks=2 for two")
    place = Place(0, launch.ranks, 0, launch.ranks, address="", port=0)
    distinct: dict[str, Cell] = {}
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for cell in cells:
        check(cell.run)
        place.check(cell.run.cluster.workers)
        device_of(cell.run, place.local_size - 1)
        if distinct.setdefault(cell.id, cell) is not cell:
            console.print(f"{cell.name}: the same run as {distinct[cell.id].name}, done once", markup=False)
    cells = list(distinct.values())
    launch = count_jobs(launch, [cell.run for cell in cells if not cell.is_finished])
    if launch.dry_run:
        plan.show([cell.run for cell in cells], launch, Console())
        return []
    check_code([cell.run for cell in cells], partial(console.print, markup=False))
    for cell in cells:
        cell.value(launch.select)  # of those finished, for what is wrong with it
    folder = StudyFolder(cells[0].run.results_dir, str(cells[0].run.study))
    with folder.locked(), Display(sum(cell.run.rounds for cell in cells), console) as display:
        folder.freeze(cells)
        jobs = _Jobs(cells, launch, folder, display)
        interrupted = jobs.run()
    failed = jobs.list_failures()
    left = sum(not cell.is_finished for cell in cells)
    if interrupted:
        raise Interrupted(f"stopped; {left} of {len(cells)} runs are left; the same command continues them")
    if left > len(failed):
        raise RunError(f"{len(failed)} of {len(cells)} runs failed, {left} are left; the same command goes on")
    return failed


class _Jobs:
    """Runs what is missing, says what came of it and keeps what failed."""

    def __init__(self, cells: list[Cell], launch: LaunchConfig, folder: StudyFolder, display: Display) -> None:
        self._cells, self._launch, self._folder, self._display = cells, launch, folder, display
        self._at_once = min(launch.jobs or 1, len(cells))
        self._waiting = {self._job(cell): cell for cell in cells if not cell.is_finished}
        self._failed: list[tuple[Cell, Job, str]] = []
        self._ended = len(cells) - len(self._waiting)
        self._rounds = dict.fromkeys(cells, 0)
        self._looked = 0.0

    def run(self) -> bool:
        """Run them. Returns whether the user stopped it."""
        todo = f"{len(self._waiting)} of {len(self._cells)} runs to do, {self._at_once} at once"
        done = f"all {len(self._cells)} runs are finished"
        self._display.say(f"{todo if self._waiting else done}; {self._folder.path}")
        waiting = set(self._waiting.values())
        for cell in self._cells:
            self._rounds[cell] = cell.folder.round() if cell in waiting else cell.run.rounds
            self._display.skip(self._rounds[cell])
        jobs, timeout = list(self._waiting), self._launch.job_timeout
        return run_jobs(jobs, self._at_once, timeout, self._end, self._watch, self._display.say)

    def list_failures(self) -> list[Cell]:
        """Print a table of them, but for those that another process has finished meanwhile."""
        failed = [failure for failure in self._failed if not failure[0].is_finished]
        if failed:
            rows = [[cell.name, how, job.error(), str(job.log)] for cell, job, how in failed]
            tables.show(self._display.console, ["failed", "how", "error", "log"], rows)
        return [cell for cell, *_ in failed]

    def _job(self, cell: Cell) -> Job:
        file, ranks = self._folder.job(cell.id), self._launch.ranks
        environment = partial(job.environment, cell.run, self._at_once, ranks)
        return Job(job.train, (file, cell.run.packages, ranks), file.with_suffix(".log"), environment)

    def _end(self, job: Job) -> bool:
        """Take note of one that has ended. Returns whether to go on with the others."""
        cell = self._waiting[job]
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
        for cell in self._waiting.values():
            if self._rounds[cell] < cell.run.rounds:
                self._advance(cell, cell.folder.round())

    def _advance(self, cell: Cell, round: int) -> None:
        if left := len(self._cells) - self._ended:
            self._display.begin(f"{min(left, self._at_once)} running")
        before, self._rounds[cell] = self._rounds[cell], max(round, self._rounds[cell])
        self._display.advance(self._rounds[cell] - before)


def _how(job: Job) -> str:
    """How a job failed."""
    code = job.code or 0
    if job.timed_out:
        return f"timed out after {duration(job.seconds)}"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}" if code else "left no finished run"
