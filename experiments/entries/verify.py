"""Verify from its files alone that an entry follows the rules of its track."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from algorithms.core.algorithm import numbers_per_coordinate
from algorithms.core.bit_counter import BitCounter, as_number
from common.errors import UsageError
from experiments.config.compose import roots
from experiments.config.schema import RunConfig
from experiments.entries.candidate import Candidate
from experiments.entries.entry import Entry, read_with_rows
from experiments.entries.parts import parts_of
from experiments.entries.track import Track, read_track
from experiments.tasks.task import Task, layout_of
from experiments.training.build import build_algorithm, build_task, participation_of
from plots.leaderboard.statistics import needs


def problems(folder: Path) -> list[str]:
    """Return what is wrong with an entry, one sentence each.

    It loads the tasks' data, because the sizes of messages depend on them. Raises DataError if data are missing, and
    UsageError if a package of the entry is missing.
    """
    try:
        entry, rows = read_with_rows(folder)
    except (OSError, ValueError) as error:
        return [str(error)]
    try:
        roots(entry.packages)
    except UsageError as error:
        raise UsageError(f"{folder}: {error}") from error
    try:
        track = read_track(entry.track, entry.packages)
        if entry.version != track.version:
            return [f"has version {entry.version} of track {track.name}, which now has version {track.version}"]
        return list(_problems(entry, rows, track))
    except (OSError, ValueError, UsageError) as error:
        return [str(error)]


def agreement(folder: Path, other: Path) -> str:
    """Say in a sentence how closely two entries of one method agree on their common seeds.

    It compares their bits to the levels. Raises ValueError if one is damaged.
    """
    (entry, mine), (_, theirs) = read_with_rows(folder), read_with_rows(other)
    track, levels, least = read_track(entry.track, entry.packages), 0, 1.0
    both = [rows.query("judged").assign(algorithm=str(place)) for rows, place in ((mine, folder), (theirs, other))]
    frame = pd.concat(both, ignore_index=True)
    frame = frame[frame["run"].isin(set(both[0]["run"]) & set(both[1]["run"]))]
    for task, rows in frame.groupby("task"):
        goal = track.tasks[str(task)]
        for level in goal.levels:
            bits = needs(rows, goal.metric, level)["bits"].unstack("algorithm").fillna(math.inf)
            ratios = (bits.min(axis=1) / bits.max(axis=1)).where(np.isfinite(bits.min(axis=1)), 1.0)
            levels, least = levels + len(ratios), min(least, ratios.min())
    if not levels:
        return f"has no run in common with {other}"
    far = f"by at most {100 * (1 - least):.2g} %" if least else "and only one of them reaches some level"
    return f"to {levels} levels of common runs its bits and those of {other} differ {far}"


def tasks_of(runs: Iterable[RunConfig]) -> dict[str, tuple[RunConfig, Task]]:
    """For each task, one of these runs and the built task."""
    return {name: (run, build_task(run)) for name, run in {run.task.name: run for run in runs}.items()}


def memory(tasks: Mapping[str, tuple[RunConfig, Task]]) -> float:
    """Numbers per coordinate that a worker keeps between rounds besides the model, the most of these tasks."""
    return round(
        max(
            numbers_per_coordinate(build_algorithm(run, layout_of(task)), task.start())
            for run, task in tasks.values()
        ),
        2,
    )


def _problems(entry: Entry, rows: pd.DataFrame, track: Track) -> Iterator[str]:
    if missing := sorted(set(track.seeds) - set(entry.seeds)):
        yield f"lacks seeds {', '.join(map(str, missing))}; experiments.enter without seeds= adds them"
    if others := sorted(set(entry.seeds) - set(track.seeds)):
        yield f"has seeds {', '.join(map(str, others))}, which are not the track's"
    candidate = Candidate(track, entry.name, entry.algorithm, entry.overrides, packages=entry.packages)
    settings = {task: chosen.setting for task, chosen in entry.tasks.items()}
    judged = candidate.judged_runs(settings, entry.seeds)
    cells = {cell.id: cell for cell in [*candidate.trials(), *judged]}
    if wrong := cells.keys() ^ set(rows["run"]):
        yield f"{len(wrong)} runs are missing or of another configuration: {', '.join(sorted(wrong)[:3])}"
        return
    if (chosen := candidate.choose(rows)) != entry.tasks:
        yield f"its trials choose other settings: {', '.join(str(choice.setting) for choice in chosen.values())}"
    first = judged[0].run  # trials are shorter, and so are their warm-ups
    if parts_of(first) != entry.parts:
        yield "its parts are not those of the method"
    built = tasks_of(cell.run for cell in judged)
    if (kept := memory(built)) != entry.memory:
        yield f"says that a worker keeps {entry.memory:g} numbers per coordinate; it keeps {kept:g}"
    for id, own in rows.groupby("run", sort=False):
        run = cells[str(id)].run
        if wrong := _find_problem(run, own, built[run.task.name][1]):
            yield f"{cells[str(id)].name}: {wrong}"


def _find_problem(run: RunConfig, rows: pd.DataFrame, task: Task) -> str:
    """Return what is wrong with the rows of one run, or an empty text."""
    due = [t for t in range(run.rounds + 1) if run.is_due(t)]
    rounds = rows["round"].tolist()
    if rounds != due[: len(rounds)] or (len(rounds) < len(due)) != (rows["status"] == "diverged").all():
        return "evaluations are missing"
    facts = {"seed": run.seed, "planned_rounds": run.rounds, "d": task.d}
    if wrong := [name for name, value in facts.items() if (rows[name] != value).any()]:
        return f"another {wrong[0]} than its configuration has"
    if (rows["bits"] != rows["bits_up"] + rows["bits_down"]).any():
        return "its bits are not the sum of both directions"
    algorithm, meter = build_algorithm(run, layout_of(task)), BitCounter()
    counted: dict[int, tuple[float, float]] = {0: (0, 0)}
    present = participation_of(run, algorithm)
    for t in range(1, rounds[-1] + 1):
        meter.count(algorithm, task.d, t, task.dtype, present)
        counted[t] = (as_number(meter.bits_up), as_number(meter.bits_down))
    recorded = list(zip(rows["bits_up"], rows["bits_down"], strict=True))
    return "" if recorded == [counted[t] for t in rounds] else "its bits are not those of the method's messages"
