"""Runs from a script or a notebook.

    from experiments import compare, load, train

    rows = train("algorithm=cd_adam", "task=logreg/digits", lr=0.003, rounds=200)
    rows = compare("task=logreg/digits", algorithm=["cd_adam", "ef21"], seed=[0, 1], lr=[0.003, 0.01])
    rows = load("results", task="logreg/digits")

Settings are strings key=value or keywords. Write dotted keys as `**{"cluster.workers": 4}`. The result is a pandas
table with the columns of metrics.jsonl and every setting in which the runs differ.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common.errors import UsageError
from common.progress import Display
from experiments.config.compose import initialize_hydra, split
from experiments.config.identity import run_id
from experiments.config.run import LAUNCH, load_run
from plots.request import require_folder
from plots.runs.find import choose_runs
from plots.runs.read import RunRecord, open_run
from plots.runs.results import Results, results

Names = str | int | Sequence[str | int]
"""One name, or several in a list or separated by commas."""


def train(*overrides: str, **settings: Any) -> Results:
    """Train one run in this process and return its rows; several step sizes, lr=[0.001, 0.003], are one batch.

    It writes no files unless `results_dir` is set. A finished run there is read, not run again. Raises UsageError
    before it starts, and RunError, DataError or Interrupted if the run ends early.
    """
    return _train_all([*overrides, *_as_overrides(settings)], [{}])


def compare(*overrides: str, **settings: Any) -> Results:
    """Train every combination of the keywords that are lists, one after another, and return their rows.

    `lr` stays one batch. Each other list becomes a column, unless rows have it already. Raises the errors of `train`.
    """
    lists = {key: value for key, value in settings.items() if isinstance(value, list | tuple) and key != "lr"}
    for key in (key for key, values in lists.items() if not values):
        raise UsageError(f"{key}=[]: an empty list, so there is no run")
    common = _as_overrides({key: value for key, value in settings.items() if key not in lists})
    each = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
    return _train_all([*overrides, *common], each)


def load(
    results_dir: str | Path = "results", study: str = "", task: Names = "", algorithm: Names = "", seed: Names = ""
) -> Results:
    """Return the rows of the finished runs below a folder. Give a study, task, algorithm or seed to choose some.

    Damaged and unfinished runs are left out with a notice on standard error. Raises UsageError if no run is left.
    """
    place = require_folder("results_dir", results_dir)
    given = {"task": task, "algorithm": algorithm, "seed": seed}
    for key in (key for key, value in given.items() if not isinstance(value, str | int) and not len(value)):
        raise UsageError(f"{key}=[]: an empty list, so there is no run")
    names = {key: ",".join(map(str, [each] if isinstance(each, str | int) else each)) for key, each in given.items()}
    every = choose_runs(place, study, **names)
    runs = [run for run in every if run.is_finished]
    if left := len(every) - len(runs):
        print(f"not finished, so left out: {left} of {len(every)} chosen runs below {place}", file=sys.stderr)
    if not runs:
        raise UsageError(f"{place}: holds no such finished run; python -m experiments.status lists the runs")
    return results(runs)


def _train_all(overrides: Sequence[str], combinations: Sequence[Mapping[str, Any]]) -> Results:
    """Train the overrides with each combination of settings, and return the rows."""
    # these import torch, which `load` does not need
    from experiments.training.build import check
    from experiments.training.runner import bring_to_end

    lines = [[*overrides, *_as_overrides(settings)] for settings in combinations]
    for word in split(chain(*lines), (*LAUNCH, "sweep"))[0]:
        raise UsageError(
            f"{word}: applies only to commands; this function runs one run after the other in this process"
        )
    with initialize_hydra():
        runs = list(map(load_run, lines))
    known: dict[str, Mapping[str, Any]] = {}
    for run, settings in zip(runs, combinations, strict=True):
        other = known.setdefault(run_id(run), settings)
        if same := [key for key in settings if settings[key] != other[key]]:
            raise UsageError(f"{', '.join(same)}: two of the values give the same run; give one of them")
        check(run)
    ended: dict[str, tuple[RunRecord, Mapping[str, Any]]] = {}
    with TemporaryDirectory() as scratch:
        if not split(lines[0], ["results_dir"])[0]:
            runs = [replace(run, results_dir=scratch) for run in runs]
        with Display(sum(run.rounds for run in runs)) as display:
            for run, settings in zip(runs, combinations, strict=True):
                path = bring_to_end(run, display).path
                ended[path.name] = open_run(path), settings
        rows = results([run for run, _ in ended.values()])
    for key in dict.fromkeys(key for _, settings in ended.values() for key in settings):
        if key not in rows:
            rows[key] = rows["run"].map({id: settings[key] for id, (_, settings) in ended.items()})
            rows.settings = [*rows.settings, key]
    return rows


def _as_overrides(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_text(value)}" for key, value in settings.items()]


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    return text if re.fullmatch(r"[\w.+/-]+", text) else json.dumps(text, ensure_ascii=False)
