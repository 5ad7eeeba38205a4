"""Verify from its files alone that an entry follows the rules of its track."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from algorithms.core.bit_counter import BitCounter
from common.errors import UsageError
from experiments.config.schema import RunConfig
from experiments.entries.candidate import Candidate
from experiments.entries.entry import Entry, read, read_rows
from experiments.entries.track import Track, read_track
from experiments.tasks.task import Task, layout_of
from experiments.training.build import build_algorithm, build_task


def problems(folder: Path) -> list[str]:
    """Return what is wrong with an entry, one sentence each.

    It loads the tasks' data, because the sizes of messages depend on them. Raises DataError if data are missing.
    """
    try:
        entry, rows = read(folder), read_rows(folder)
        track = read_track(entry.track, entry.packages)
        if entry.version != track.version:
            return [f"has version {entry.version} of track {track.name}, which now has version {track.version}"]
        return list(_problems(entry, rows, track))
    except (OSError, ValueError, UsageError) as error:
        return [str(error)]


def _problems(entry: Entry, rows: pd.DataFrame, track: Track) -> Iterator[str]:
    if missing := sorted(set(track.seeds) - set(entry.seeds)):
        yield f"lacks seeds {', '.join(map(str, missing))}"
    candidate = Candidate(track, entry.name, entry.algorithm, entry.overrides, packages=entry.packages)
    settings = {task: chosen.setting for task, chosen in entry.tasks.items()}
    cells = {cell.id: cell for cell in [*candidate.trials(), *candidate.judged(settings, entry.seeds)]}
    if wrong := cells.keys() ^ set(rows["run"]):
        yield f"{len(wrong)} runs are missing or of another configuration: {', '.join(sorted(wrong)[:3])}"
        return
    if (chosen := candidate.choose(rows)) != entry.tasks:
        yield f"its trials choose other settings: {', '.join(str(one.setting) for one in chosen.values())}"
    tasks: dict[str, Task] = {}
    for id, some in rows.groupby("run", sort=False):
        run = cells[str(id)].run
        if run.task.name not in tasks:
            tasks[run.task.name] = build_task(run)
        if wrong := _wrong(run, some, tasks[run.task.name]):
            yield f"{cells[str(id)].name}: {wrong}"


def _wrong(run: RunConfig, rows: pd.DataFrame, task: Task) -> str:
    """Return what is wrong with the rows of one run, or an empty text."""
    due = [t for t in range(run.rounds + 1) if t == 0 or run.is_due(t)]
    there = rows["round"].tolist()
    if there != due[: len(there)] or (len(there) < len(due)) != (rows["status"] == "diverged").all():
        return "evaluations are missing"
    algorithm, meter, counted = build_algorithm(run, layout_of(task)), BitCounter(), {0: (0, 0)}
    for t in range(1, there[-1] + 1):
        meter.count(algorithm, task.d, t, task.dtype)
        counted[t] = (meter.bits_up, meter.bits_down)
    said = list(zip(rows["bits_up"], rows["bits_down"], strict=True))
    return "" if said == [counted[t] for t in there] else "its bits are not those of the method's messages"
