"""Finished runs from a script or a notebook: `from experiments import load`. Reading needs no torch."""

from collections.abc import Sequence
from pathlib import Path

from common.errors import UsageError
from plots.request import folder
from plots.runs.find import chosen_runs
from plots.runs.results import Results, results

Names = str | int | Sequence[str | int]
"""One, or several in a list or separated by commas."""


def load(
    results_dir: str | Path = "results", study: str = "", task: Names = "", algorithm: Names = "", seed: Names = ""
) -> Results:
    """The rows of the finished runs below a folder, of a study, task, algorithm or seed where that is given.

    A damaged one is left out with a notice on standard error. Raises UsageError where there are none, with the names
    that there are.
    """
    place = folder("results_dir", results_dir)
    names = {"task": _joined(task), "algorithm": _joined(algorithm), "seed": _joined(seed)}
    runs = [run for run in chosen_runs(place, study, **names) if run.is_finished]
    if not runs:
        raise UsageError(f"{place}: holds no such finished run; python -m experiments.status lists the runs")
    return results(runs)


def _joined(names: Names) -> str:
    return ",".join(map(str, names)) if isinstance(names, list | tuple) else str(names)
