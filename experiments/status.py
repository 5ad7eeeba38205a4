"""Every run below a results folder: its state, how far it is, and where it lies.

    python -m experiments.status
    python -m experiments.status results other/results
    python -m experiments.status study=first algorithm=cd_adam,ef21 state=failed,interrupted

A folder is by default results. study, task, algorithm, seed and state choose among the runs, several separated by
commas. State is one of finished, running, interrupted (stopped by someone, to be resumed), failed, gone (it says
running, but no process has it any more), missing (written down by a sweep, never begun) and damaged. The metric is
the last one of the best step size, by what the task selects step sizes by. Away from a terminal every run is one
line, its columns separated by tabs, the last of which is its folder; at a terminal what all have in common stands
below. Nothing is changed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from common import tables
from common.progress import duration
from experiments.config.identity import changed
from plots.request import answering, folder, parse, words
from plots.runs.columns import higher_is_better
from plots.runs.find import CHOOSING, find, select
from plots.runs.read import STATES, Run
from plots.runs.variants import precedence, settings

COLUMNS = ("state", "rounds", "bits", "metric", "left", "task", "algorithm", "n", "seed", "lr", "settings")
"""Of the table, before where a run lies."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    given = words("experiments.status", __doc__, arguments, "DIR | key=value")
    with answering():
        request = parse([word for word in given if "=" in word], dict.fromkeys(CHOOSING, ""))
        places = [folder("results_dir", word) for word in given if "=" not in word] or [
            folder("results_dir", "results")
        ]
        show([run for place in places for run in select(find(place), place, **request)], Console())


def show(runs: Sequence[Run], console: Console) -> None:
    """Print the table of some runs, what their errors are, and how many are in which state."""
    whole = not console.is_terminal  # where a line is as long as it likes
    readable = sorted((run for run in runs if run.config), key=_place)
    differing = settings(readable)
    columns = [*COLUMNS, "folder" if whole else "id"]
    rows = [[*_cells(run, differing[run.folder]), str(run.folder) if whole else run.id] for run in readable]
    rows += [["damaged", *"–" * (len(COLUMNS) - 1), str(run.folder)] for run in runs if not run.config]
    cells = [{row[place] for row in rows} for place in range(len(COLUMNS))]
    alike = [some == {"–"} or (place > 1 and len(some) == 1 < len(rows)) for place, some in enumerate(cells)]
    shared = [] if whole else [place for place, one in enumerate(alike) if one]
    if rows:
        shown = [[row[place] for place in range(len(row)) if place not in shared] for row in [columns, *rows]]
        tables.show(console, shown[0], shown[1:])
    counts = Counter(run.state for run in runs)
    lines = [f"all: {', '.join(same)}"] if (same := _words(columns, rows, shared)) else []
    lines += [f"{run.folder}: {run.error}" for run in readable if run.error and run.state == "failed"]
    lines += [run.error for run in runs if run.state == "damaged"]
    lines += _other_code(readable, differing)
    lines += [", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "no runs"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _words(columns: Sequence[str], rows: Sequence[Sequence[str]], shared: Iterable[int]) -> list[str]:
    """What all rows have in these columns, where they have anything."""
    return [f"{columns[place]} {rows[0][place]}" for place in shared if rows[0][place] != "–"]


def _cells(run: Run, differing: str) -> list[str]:
    """A run's line, but for where it lies."""
    lrs = run.lrs
    few = lrs if len(lrs) < 4 else (lrs[0], lrs[-1])
    lr = (" " if few is lrs else " … ").join(f"{value:g}" for value in few)
    done = run.rounds if run.is_finished else run.round
    left = _left(run)
    cells = (
        run.last[-1].get("bits") if run.last else None, _metric(run), left and duration(left), run.task,
        run.algorithm, run.workers, run.seed, lr or None, differing or None,
    )  # fmt: skip
    return [run.state, f"{done}/{run.rounds}", *("–" if cell is None else str(cell) for cell in cells)]


def _metric(run: Run) -> str | None:
    """What a run selects step sizes by, at its last evaluation with the best of them."""
    name = run.metric
    if name is None:
        return None
    values = [row[name] for row in run.last if row.get(name) is not None]
    return f"{name} {(max if higher_is_better(name) else min)(values):.4g}"


def _left(run: Run) -> float | None:
    """Seconds for the rounds that are left at the pace of those since the run was begun or resumed."""
    if run.state != "running" or not run.last:
        return None
    begin = datetime.fromisoformat(run.status["time"]).timestamp()
    measured = (run.folder / "metrics.jsonl").stat().st_mtime
    last = run.last[-1]["round"]
    rounds = last - run.status.get("round", 0)
    if rounds <= 0 or measured <= begin:
        return None
    return max(1.0, (measured - begin) / rounds * (run.rounds - last) - (time.time() - measured))


def _other_code(runs: Iterable[Run], differing: Mapping[Path, str]) -> list[str]:
    """Why runs with the same configuration are several: for all but the one that stands, what was edited."""
    alike: dict[tuple, list[Run]] = {}
    for run in runs:
        key = (run.task, run.algorithm, differing[run.folder], run.seed, *run.lrs)
        alike.setdefault(key, []).append(run)
    lines = []
    for group in alike.values():
        *others, stands = sorted(group, key=precedence)
        for run in others:
            edits = changed(run.code, stands.code) if run.code and stands.code else ["begun with other code"]
            lines.append(f"{run.folder}: not {stands.id}, which is {stands.state}: {', '.join(edits)}")
    return lines


def _place(run: Run) -> tuple:
    """By which runs are ordered."""
    return (run.task, run.algorithm, run.workers, run.seed, run.lrs, str(run.folder))


if __name__ == "__main__":
    main()
