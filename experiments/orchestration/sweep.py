"""Runs from their configurations to their results: what is missing is run, what failed is listed."""

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
from experiments.cluster.launch import launch as place_of
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import job, plan
from experiments.orchestration.job import count_jobs
from experiments.orchestration.processes import Job, run_jobs
from experiments.orchestration.study import Cell, StudyFolder, cells
from experiments.run_store.code import say_edits
from experiments.training.build import check, device_of
from experiments.training.runner import bring_to_end
from experiments.training.session import session, train_here
from plots.runs.variants import group_by


def train(run: RunConfig, launch: LaunchConfig) -> Cell:
    """Plan one run, or bring it to its end, in this process or in those of its own that `launch` asks for.

    Raises UsageError and RunError.
    """
    [cell] = cells([[]], [run], study=None)
    if launch.ranks > 1 or launch.job_timeout is not None:  # of which `sweep` sees what is done
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
    """Bring all cells to their ends, in this process where one runs after the other; those that diverge are kept.

    Returns whether this process is to draw them. Raises as `sweep`.
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
            say_edits(runs, display.say)
            folder = StudyFolder(runs[0].results_dir, str(runs[0].study))
            with folder.locked():
                folder.freeze(cells)
        for run in runs:
            try:
                bring_to_end(run, display, ranks)
            except Diverged as error:
                if ranks.size > 1:
                    raise
                display.say(f"{error}; its rows are kept")
    return ranks.is_first


def sweep(cells: list[Cell], launch: LaunchConfig) -> list[Cell]:
    """Bring every cell to its end in a process of its own, `jobs` at once; those already finished need none.

    Returns those that failed, once all others are done. With `dry_run` they are shown instead. Raises UsageError
    before anything is started, and Interrupted where the user stopped it. The same call goes on.
    """
    if place_of():
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
    say_edits([cell.run for cell in cells], partial(console.print, markup=False))
    for cell in cells:
        cell.value(launch.select)  # of those finished, for what is wrong with it
    folder = StudyFolder(cells[0].run.results_dir, cells[0].run.study or cells[0].id)
    with folder.locked(), Display(sum(cell.run.rounds for cell in cells), console) as display:
        folder.freeze(cells)
        interrupted, failures = _run(cells, launch, folder, display)
    failures = [failure for failure in failures if not failure[0].is_finished]  # by another process meanwhile
    if failures:
        alike = group_by(failures, lambda failure: failure[1:3])
        rows = [["; ".join(one[0].name for one in some), *what, str(some[0][3])] for what, some in alike.items()]
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
    """Run what is missing, and say what came of it. Returns whether the user stopped it, and what failed: how, by
    which error, and the log."""
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

    def ended(one: Job) -> bool:
        """Take note of a job that has ended. Returns whether to go on with the others."""
        cell = waiting.pop(one)
        if cell.is_finished and (one.asked or one.code == 0):
            advance(cell, cell.run.rounds)
            done = sum(rounds[one] == one.run.rounds for one in cells)
            time = format_duration(one.seconds)
            said = f"{done} of {len(cells)}  {cell.name}: {_outcome(cell, launch.select)}  ({time})"
        elif one.asked and not one.timed_out:
            return True
        else:
            how, error = _how(one), one.error()
            is_new = all((how, error) != (other[1], other[2]) for other in failures)
            failures.append((cell, how, error, one.log))
            said = f"{cell.name}: failed, {': '.join(filter(None, [how, error]))}" if is_new else ""
        if said:
            display.say(said)
        return not (launch.fail_fast and failures)

    def watch() -> None:
        """How far the runs have come by their last rows, once a second."""
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
    return run_jobs(list(waiting), at_once, launch.job_timeout, ended, watch, display.say), failures


def _outcome(cell: Cell, rule: str | None) -> str:
    """What a finished run came to. An error here is only said, so that the other runs go on."""
    try:
        return cell.outcome(rule)
    except Exception as error:
        return f"finished, but its result could not be read: {type(error).__name__}: {error}"


def _how(job: Job) -> str:
    code = job.code or 0
    if job.timed_out:
        return f"timed out after {format_duration(job.seconds)}"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}" if code else "left no finished run"
