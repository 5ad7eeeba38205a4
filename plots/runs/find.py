"""Run folders under a results folder, and which of them are asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from common.names import unknown
from plots.request import RequestError
from plots.runs.read import Run, open_run


def find(results_dir: Path) -> list[Run]:
    """Every run under a results folder, finished or not, in order of task, algorithm and id.

    A run without a first row is not there yet. A damaged folder is left out, with a notice on standard error.
    """
    runs = []
    for folder in sorted(metrics.parent for metrics in results_dir.rglob("metrics.jsonl") if _has_a_row(metrics)):
        try:
            runs.append(open_run(folder))
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)
    return runs


def select(
    runs: Iterable[Run], results_dir: Path, study: str = "", task: str = "", algorithm: str = "", seed: str = ""
) -> list[Run]:
    """The runs of one study and of the given tasks, algorithms and seeds, names separated by commas; all where empty.

    A study has the runs that were begun for it, and those that its sweep found finished.
    Raises RequestError for a name that no run has, with the nearest one that some run has.
    """
    chosen = list(runs)
    if study:
        sweeps = results_dir / "sweeps"
        listed = {
            str(file.parent.relative_to(sweeps)): file.read_text().split() for file in sweeps.rglob("cells.txt")
        }
        begun = {run.config.get("study") for run in chosen} - {None}
        if study not in {*listed, *begun}:
            raise RequestError(unknown(f"study={study}: no run has it", study, sorted({*listed, *begun})))
        chosen = [
            run for run in chosen if run.config.get("study") == study or run.folder.name in listed.get(study, [])
        ]
    for key, names, name_of in (
        ("task", task, lambda run: run.task),
        ("algorithm", algorithm, lambda run: run.algorithm),
        ("seed", seed, lambda run: str(run.config["seed"])),
    ):
        there = sorted({name_of(run) for run in chosen})
        wanted = [name for name in names.split(",") if name]
        for name in wanted:
            if name not in there:
                raise RequestError(unknown(f"{key}={name}: no run{_among(key)} has it", name, there))
        chosen = [run for run in chosen if not wanted or name_of(run) in wanted]
    return chosen


def _among(key: str) -> str:
    """What had been chosen before."""
    return {"task": "", "algorithm": " of the task", "seed": " of these tasks and algorithms"}[key]


def _has_a_row(metrics: Path) -> bool:
    with metrics.open() as file:
        return file.readline().endswith("\n")
