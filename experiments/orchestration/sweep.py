"""Run the missing cells of a study, and list those that failed."""

import signal
import sys
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from common import tables
from common.errors import Diverged, Interrupted, RunError, UsageError
from common.progress import Display, format_duration
from experiments.cluster.launch import Launch as Place
from experiments.cluster.launch import read_launch
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import job, plan
from experiments.orchestration.job import count_jobs
from experiments.orchestration.processes import Job, run_jobs
from experiments.orchestration.study import Cell, StudyFolder, cells
from experiments.run_store.code import report_edits
from experiments.training.build import check, device_of
from experiments.training.runner import bring_to_end
from experiments.training.session import session, train_here
from plots.runs.variants import group_by


def train(run: RunConfig, launch: LaunchConfig) -> Cell:
    """Plan or train one run, in this process or in new ones, as `launch` says.

    Raises UsageError and RunError.
    """
    [cell] = cells([[]], [run], study=None)
    if launch.ranks > 1 or launch.job_timeout is not None:  # these need new processes
        if sweep([cell], launch):
            raise RunError("the run failed, see above")
    else:
        check(run)
        if launch.dry_run:
            plan.show([cell.run], launch, Console())
        else:
            train_here(cell.run)
    return cell


def run_all(cells: list[Cell], launch: LaunchConfig, title: str) -> bool:
    """Train all cells, in this process if one runs after the other. Diverged runs are kept.

    Returns whether this process draws the figure. Raises the errors of `sweep`.
    """
    runs = [cell.run for cell in cells]
    for run in runs:
        check(run)
    launch = count_jobs(launch, [cell.run for cell in cells if not cell.is_finished])
    if launch.dry_run:
        print(title, file=sys.stderr)
        plan.show(runs, launch, Console())
        return False
    if launch.ranks > 1 or launch.jobs != 1 or launch.job_timeout is not None:
        print(title, file=sys.stderr)
        failed = sweep(cells, launch)
        if any(not cell.folder.is_over() for cell in failed):
            raise RunError("some runs failed, see above; the same command goes on")
        if failed:
            print(f"diverged, rows kept: {len(failed)} of {len(runs)}", file=sys.stderr)
        return True
    with session(runs) as (ranks, display):
        display.say(title)
        if ranks.is_first:
            report_edits(runs, display.say)
            folder = StudyFolder(runs[0].results_dir, str(runs[0].study))
            with folder.lock():
                folder.freeze(cells)
        for run in runs:
            try:
                bring_to_end(run, display, ranks)
            except Diverged as error:
                if ranks.size > 1:
                    raise
                display.say(str(error))
    return ranks.is_first


def sweep(cells: list[Cell], launch: LaunchConfig) -> list[Cell]:
    """Train every unfinished cell in a process of its own, `jobs` at once.

    Returns the failed cells, once all others are done. With `dry_run` it prints the plan instead. Raises UsageError
    before anything is started, and Interrupted if the user stopped it. The same call goes on.
    """
    if read_launch():
        raise UsageError("a sweep or a run with ranks= starts its own processes: leave out torchrun or srun")
    place = Place(0, launch.ranks, 0, launch.ranks, address="", port=0)
    distinct: dict[str, Cell] = {}
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for cell in cells:
        check(cell.run)
        place.check(cell.run.cluster.workers, cell.run.cluster.groups)
        device_of(cell.run, place.local_size - 1)
        if distinct.setdefault(cell.id, cell) is not cell:
            console.print(f"{cell.name}: the same run as {distinct[cell.id].name}, done once", markup=False)
    cells = list(distinct.values())
    launch = count_jobs(launch, [cell.run for cell in cells if not cell.is_finished])
    if launch.dry_run:
        plan.show([cell.run for cell in cells], launch, Console())
        return []
    report_edits([cell.run for cell in cells], partial(console.print, markup=False))
    for cell in cells:
        cell.value(launch.select)  # an error in `select` shows on a finished one
    folder = StudyFolder(cells[0].run.results_dir, cells[0].run.study or cells[0].id)
    with folder.lock(), Display(sum(cell.run.rounds for cell in cells), console) as display:
        folder.freeze(cells)
        interrupted, failures = _run(cells, launch, folder, display)
    failures = [failure for failure in failures if not failure[0].is_finished]  # or another process finished it
    if failures:
        alike = group_by(failures, lambda failure: failure[1:3])
        rows = [["; ".join(cell.name for cell, *_ in same), *what, str(same[0][3])] for what, same in alike.items()]
        tables.print_table(console, ["failed", "how", "error", "log"], rows)
    left = sum(not cell.is_finished for cell in cells)
    if interrupted:
        raise Interrupted(f"stopped; {left} of {len(cells)} runs are left; the same command continues them")
    if left > len(failures):
        raise RunError(f"{len(failures)} of {len(cells)} runs failed, {left} are left; the same command goes on")
    return [cell for cell, *_ in failures]


def _run(
    cells: list[Cell], launch: LaunchConfig, folder: StudyFolder, display: Display
) -> tuple[bool, list[tuple[Cell, str, str, Path]]]:
    """Run the missing cells, and print their results. Return whether the user stopped it, and the failures: cell,
    how, error and log."""
    at_once, rounds = min(launch.jobs or 1, len(cells)), {}
    waiting: dict[Job, Cell] = {}
    failures: list[tuple[Cell, str, str, Path]] = []
    for cell in cells:
        rounds[cell] = cell.run.rounds if cell.is_finished else cell.folder.round()
        display.skip(rounds[cell])
        if not cell.is_finished:
            file = folder.job(cell.id)
            environment = partial(job.environment, cell.run, at_once, launch.ranks)
            call = (file, cell.run.packages, launch.ranks, cell.run)
            kind = plan.kind(cell.run), cell.run.rounds
            waiting[Job(job.train, call, file.with_suffix(".log"), environment, kind)] = cell
    todo = f"{len(waiting)} of {len(cells)} runs to do, {at_once} at once"
    display.say(f"{todo if waiting else f'all {len(cells)} runs are finished'}; {folder.path}")

    def on_end(ended: Job) -> bool:
        """Record a job that has ended. Return whether to go on with the others."""
        cell = waiting.pop(ended)
        if cell.is_finished and (ended.requests or ended.code == 0):
            advance(cell, cell.run.rounds)
            done = sum(rounds[each] == each.run.rounds for each in cells)
            time = format_duration(ended.seconds)
            line = f"{done} of {len(cells)}  {cell.name}: {_outcome(cell, launch.select)}  ({time})"
        elif ended.requests and not ended.timed_out:
            return True
        else:
            how, error = _failure(ended), ended.error()
            is_new = all((how, error) != (other[1], other[2]) for other in failures)
            failures.append((cell, how, error, ended.log))
            line = f"{cell.name}: failed, {': '.join(filter(None, [how, error]))}" if is_new else ""
        if line:
            display.say(line)
        return not (launch.fail_fast and failures)

    def watch() -> None:
        """Update the progress of the runs by their last rows, once a second."""
        nonlocal looked
        if time.monotonic() - looked > 1:
            looked = time.monotonic()
            for cell in waiting.values():
                advance(cell, cell.folder.round())

    def advance(cell: Cell, round: int) -> None:
        if waiting:
            failed = f", {len(failures)} failed" if failures else ""
            display.begin(f"{min(len(waiting), at_once)} running{failed}")
        display.advance(max(0, round - rounds[cell]))
        rounds[cell] = max(round, rounds[cell])

    looked = 0.0
    return run_jobs(list(waiting), at_once, launch.job_timeout, on_end, watch, display.say), failures


def _outcome(cell: Cell, rule: str | None) -> str:
    """Describe the result of a finished run. An error becomes text, so that the other runs go on."""
    try:
        return cell.outcome(rule)
    except Exception as error:
        return f"finished, but its result could not be read: {type(error).__name__}: {error}"


def _failure(job: Job) -> str:
    code = job.code or 0
    if job.timed_out:
        return f"timed out after {format_duration(job.seconds)}"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}" if code else "left no finished run"
