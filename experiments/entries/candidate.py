"""A method on a track: its trials, the settings that they choose, and the judged runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import pandas as pd

from common.errors import UsageError
from experiments.config import identity
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.entries.entry import Choice
from experiments.entries.track import Track
from experiments.orchestration.study import Cell
from plots.runs.best import Rule, rank_step_sizes
from plots.runs.columns import column
from plots.runs.read import RunRecord, open_run, repeat_by_row, table

_LOOKS = ["trial", "task_label", "label", "color", "marker", "selected_by"]


@dataclass(frozen=True)
class Candidate:
    """A method with its own overrides. `places` are overrides that change no numbers."""

    track: Track
    name: str  # of the entry
    algorithm: str
    overrides: Sequence[str] = ()
    places: Sequence[str] = ()
    packages: Sequence[str] = ()
    label: str = ""  # of the entry in pictures and tables; empty: the method's and its overrides
    _bases: dict[tuple[str, ...], RunConfig] = field(default_factory=dict, compare=False)

    @cached_property
    def grids(self) -> dict[str, dict[str, Sequence[Any]]]:
        """For every task and key, the values to try.

        The method lists the values of other keys. Step sizes nearest its usual one fill the remaining trials. Raises
        UsageError if the method declares no step size.
        """
        return {task: self._grid(self._compose(task, {})) for task in self.track.tasks}

    def trials(self) -> list[Cell]:
        """Short runs of every setting on every task, with the seed that is never judged. Raises UsageError."""
        tuning, cells = self.track.tuning, []
        for task, grid in self.grids.items():
            for setting in _settings(grid):
                run = self._compose(task, setting)
                share = {name: round(tuning.share * getattr(run, name)) for name in ("rounds", "warmup_rounds")}
                cells.append(self._cell(replace(run, epochs=None, seed=tuning.seed, **share), setting))
        return cells

    def judged_runs(self, settings: Mapping[str, Mapping[str, Any]], seeds: Iterable[int]) -> list[Cell]:
        """Runs of one setting per task, with every seed. Raises UsageError."""
        runs = [(self._compose(task, setting), setting) for task, setting in settings.items()]
        return [self._cell(replace(run, seed=seed), setting) for run, setting in runs for seed in seeds]

    def choose(self, rows: pd.DataFrame) -> dict[str, Choice]:
        """The best setting of every task among these trials, by the rule of `plots.runs.best.rank_step_sizes`."""
        choices = {}
        for task, grid in self.grids.items():
            known = {_words(setting): setting for setting in _settings(grid)}
            trials = rows[(rows["task"] == task) & ~rows["judged"]]
            ranks = rank_step_sizes(
                trials.assign(lr=trials["setting"].map(list(known).index)), Rule(self.track.tasks[task].metric)
            )
            best = list(known.values())[int(ranks.index[0])]
            choices[task] = Choice(
                setting=best,
                tried=grid,
                inside=min(grid["lr"]) < best["lr"] < max(grid["lr"]),
                note="every trial diverged" if (trials["status"] == "diverged").all() else ranks["why_not"].iloc[0],
                config=identity.settings(self._compose(task, best)),
            )
        return choices

    def rows(self, cells: Sequence[Cell]) -> tuple[pd.DataFrame, list[RunRecord]]:
        """Every evaluation of these runs, in the columns of `experiments.entries.entry.write_entry`, and the runs."""
        runs = [open_run(cell.folder.path) for cell in cells]
        about = pd.DataFrame(
            {
                "judged": [run.seed != self.track.tuning.seed for run in runs],
                "setting": [" ".join(cell.overrides) for cell in cells],
                "status": ["finished" if run.is_finished else "diverged" for run in runs],
            }
        )
        rows = table(runs).drop(columns=_LOOKS)
        rows = rows[[name for name in rows if column(str(name)).filled_by != "diagnostics"]]
        return pd.concat([rows, repeat_by_row(runs, about)], axis=1), runs

    def _compose(self, task: str, setting: Mapping[str, Any]) -> RunConfig:
        """A run of a task. One composition serves all step sizes."""
        others = tuple(f"{key}={value}" for key, value in setting.items() if key != "lr")
        if (task, *others) not in self._bases:
            allowed = [f"packages=[{','.join(self.packages)}]"] if self.packages else []
            fixed = [f"task={task}", *self.track.overrides, *self.track.tasks[task].overrides]
            own = [f"algorithm={self.algorithm}", *self.overrides, *self.places]
            self._bases[task, *others] = load_run([*allowed, *fixed, *own, *others])
        run = self._bases[task, *others]
        return replace(run, lr=(setting["lr"],)) if setting else run

    def _grid(self, run: RunConfig) -> dict[str, Sequence[Any]]:
        tuning, own = self.track.tuning, {key: value for key, value in run.algorithm.entry.items() if key != "family"}
        lr = own.pop("lr", None)
        for text in self.overrides:
            if text.lstrip("+").partition("=")[0] in own:
                raise UsageError(f"{text}: algorithm.entry tries several values of this key; remove it there")
        for key, value in own.items():
            if not isinstance(value, list):
                raise UsageError(
                    f"algorithm.entry.{key}={value}: must be a list of values to try; only family and lr have one "
                    "value"
                )
        count = tuning.trials // math.prod(map(len, own.values()))
        if not isinstance(lr, int | float) or not count:
            raise UsageError(
                f"algorithm.entry={dict(run.algorithm.entry)}: must have a step size, such as entry: {{lr: 0.01}} in "
                f"conf/algorithm/{self.algorithm}.yaml; lists of other keys' values may have at most {tuning.trials} "
                "combinations"
            )
        nearest = sorted(tuning.factors, key=lambda factor: abs(math.log(factor)))[:count]
        return {"lr": [float(f"{lr * factor:.3g}") for factor in sorted(nearest)], **own}

    def _cell(self, run: RunConfig, setting: Mapping[str, Any]) -> Cell:
        words, study = _words(setting), f"leaderboard/{self.track.name}/{self.name}"
        return Cell(f"{run.task.name} {words} seed={run.seed}", tuple(words.split()), replace(run, study=study))


def _settings(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _words(setting: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in setting.items())
