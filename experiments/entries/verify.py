"""Whether an entry is what its track asks for, by its files alone."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from algorithms.core.bit_counter import BitCounter
from common.errors import UsageError
from experiments.config import identity
from experiments.config.schema import RunConfig
from experiments.entries.candidate import Candidate, choose, in_words
from experiments.entries.entry import Entry, read, read_rows
from experiments.entries.track import Track, read_track
from experiments.tasks.task import Task, layout_of
from experiments.training.build import build_algorithm, build_task


def problems(folder: Path) -> list[str]:
    """What is wrong with an entry, one sentence each. The data of its tasks are read for the sizes of messages.

    Raises DataError where they are missing.
    """
    try:
        entry, rows = read(folder), read_rows(folder)
        track = read_track(entry.track, entry.packages)
        if entry.version != track.version:
            return [f"of version {entry.version} of the track {track.name}, which is {track.version} now"]
        return list(_problems(entry, rows, track))
    except (OSError, ValueError, UsageError) as error:
        return [str(error)]


def _problems(entry: Entry, rows: pd.DataFrame, track: Track) -> Iterator[str]:
    if missing := sorted(set(track.seeds) - set(entry.seeds)):
        yield f"lacks seeds {', '.join(map(str, missing))}"
    candidate = Candidate(track, entry.algorithm, tuple(entry.overrides), (), tuple(entry.packages))
    trials = candidate.trials()
    judged = candidate.judged({task: chosen.setting for task, chosen in entry.tasks.items()}, entry.seeds)
    runs = {identity.of(one.run): one for one in [*trials, *judged]}
    if wrong := runs.keys() ^ set(rows["run"]):
        yield f"{len(wrong)} runs are missing or of another configuration: {', '.join(sorted(wrong)[:3])}"
        return
    for task, chosen in entry.tasks.items():
        mine = rows[(rows["task"] == task) & ~rows["judged"]]
        found = choose(mine, track.tasks[task].metric, candidate.grids[task])
        if found != (chosen.setting, chosen.inside, chosen.note):
            yield f"{task}: its trials choose {found}, not {chosen.setting}"
    tasks = {one.run.task.name: one.run for one in judged}
    tasks = {name: build_task(run) for name, run in tasks.items()}
    for id, some in rows.groupby("run", sort=False):
        one = runs[str(id)]
        if wrong := _wrong(one.run, some, tasks[one.run.task.name]):
            yield f"{one.run.task.name}, {in_words(one.setting)}, seed {one.run.seed}: {wrong}"


def _wrong(run: RunConfig, rows: pd.DataFrame, task: Task) -> str:
    """What is wrong with the rows of one run; empty where nothing is."""
    due = [t for t in range(run.rounds + 1) if t == 0 or run.is_due(t)]
    there = rows["round"].tolist()
    if there != due[: len(there)] or (len(there) < len(due)) != (rows["status"] == "diverged").all():
        return "evaluations are missing"
    algorithm, meter, counted = build_algorithm(run, layout_of(task)), BitCounter(), [(0, 0)]
    for t in range(1, there[-1] + 1):
        meter.count(algorithm, task.d, t, task.dtype)
        counted += [(meter.bits_up, meter.bits_down)] * (t in there)
    return (
        "" if counted == list(zip(rows["bits_up"], rows["bits_down"], strict=True)) else "bits are not the method's"
    )
