"""A method on a track: its trials, what they come to, and the runs that are judged."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import pandas as pd

from common.errors import UsageError
from experiments.config import identity
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.entries.track import Track, Tuning
from plots.runs.best import Rule, ranked
from plots.runs.read import RunRecord, beside, open_run, table

_LOOKS = ["trial", "task_label", "label", "color", "marker", "selected_by"]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of a candidate, a trial or one that is judged, with the values that are tried or were chosen."""

    run: RunConfig
    setting: Mapping[str, Any]
    judged: bool


@dataclass(frozen=True)
class Candidate:
    """A method with overrides of its own on a track; `places` are overrides that change no number."""

    track: Track
    algorithm: str
    overrides: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @cached_property
    def grids(self) -> dict[str, dict[str, list]]:
        """By task the values that are tried of every key. Raises UsageError, see `grid`."""
        return {task: grid(self._composed(task, {}), self.track.tuning) for task in self.track.tasks}

    def trials(self) -> list[Attempt]:
        """Every setting of every task, on the seed that is judged nowhere. Raises UsageError."""
        tuning, found = self.track.tuning, []
        for task, tried in self.grids.items():
            for setting in settings(tried):
                run = self._composed(task, setting)
                share = {name: round(tuning.share * getattr(run, name)) for name in ("rounds", "warmup_rounds")}
                run = replace(run, epochs=None, seed=tuning.seed, **share)
                found.append(Attempt(run=run, setting=setting, judged=False))
        return found

    def judged(self, chosen: Mapping[str, Mapping[str, Any]], seeds: Iterable[int]) -> list[Attempt]:
        """The chosen setting of every task with every seed. Raises UsageError."""
        runs = [(self._composed(task, setting), setting) for task, setting in chosen.items()]
        return [
            Attempt(run=replace(run, seed=seed), setting=setting, judged=True)
            for run, setting in runs
            for seed in seeds
        ]

    def _composed(self, task: str, setting: Mapping[str, Any]) -> RunConfig:
        """A run of a task. Only its other keys are composed anew for a step size."""
        others = tuple(f"{key}={value}" for key, value in setting.items() if key != "lr")
        run = self._bases.get((task, others))
        if run is None:
            let_in = [f"packages=[{','.join(self.packages)}]"] if self.packages else []
            fixed = [f"task={task}", *self.track.overrides, *self.track.tasks[task].overrides]
            run = load_run([*let_in, *fixed, f"algorithm={self.algorithm}", *self.overrides, *self.places, *others])
            self._bases[task, others] = run
        return replace(run, lr=(setting["lr"],)) if setting else run

    @cached_property
    def _bases(self) -> dict[tuple[str, tuple[str, ...]], RunConfig]:
        return {}


def grid(run: RunConfig, tuning: Tuning) -> dict[str, list]:
    """What is tried of a method: its own values of other keys and, for the trials that these leave, the step sizes
    nearest the one that it declares. Raises UsageError where it declares none."""
    own = {key: value for key, value in run.algorithm.entry.items() if key != "family"}
    lr = own.pop("lr", None)
    count = tuning.trials // math.prod(map(len, own.values()))
    if not isinstance(lr, int | float) or not count:
        raise UsageError(
            f"algorithm.entry={dict(run.algorithm.entry)}: must have a step size lr, and may have lists for other "
            f"keys, with at most {tuning.trials} combinations"
        )
    nearest = sorted(tuning.factors, key=lambda factor: abs(math.log(factor)))[:count]
    return {"lr": [float(f"{lr * factor:.3g}") for factor in sorted(nearest)], **own}


def settings(tried: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values of several keys."""
    return [dict(zip(tried, values, strict=True)) for values in product(*tried.values())]


def in_words(setting: Mapping[str, Any]) -> str:
    """A setting as overrides."""
    return " ".join(f"{key}={value}" for key, value in setting.items())


def rows_of(attempts: Sequence[Attempt]) -> tuple[pd.DataFrame, list[RunRecord]]:
    """Every evaluation of these runs as an entry has them, and the runs."""
    runs = [open_run(identity.folder(attempt.run)) for attempt in attempts]
    about = [
        {
            "judged": attempt.judged,
            "setting": in_words(attempt.setting),
            "status": "finished" if run.is_finished else "diverged",
        }
        for attempt, run in zip(attempts, runs, strict=True)
    ]
    return pd.concat([table(runs).drop(columns=_LOOKS), beside(runs, about)], axis=1), runs


def choose(rows: pd.DataFrame, metric: str, tried: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], bool, str]:
    """The best setting by the trials of one task, whether it lies inside the grid, and what speaks against it.

    The rule is that of reports, see `plots.runs.best.ranked`.
    """
    known = {in_words(setting): setting for setting in settings(tried)}
    numbered = rows.assign(lr=rows["setting"].map(list(known).index))
    ranks = ranked(numbered, Rule(metric))
    best = list(known.values())[int(ranks.index[0])]
    return best, min(tried["lr"]) < best["lr"] < max(tried["lr"]), str(ranks["why_not"].iloc[0])
