"""The runs of a figure. Errors that would show only after training are raised before it."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache
from itertools import product

from common.errors import UsageError
from common.names import explain_unknown
from experiments.config.compose import split
from experiments.config.run import load_run
from experiments.config.schema import Reproduction, RunConfig
from plots.figure.derive import MinimumOverRounds
from plots.figure.spec import Figure


def runs_of(figure: Figure, overrides: Sequence[str], packages: Sequence[str] = ()) -> list[RunConfig]:
    """Return a figure's runs in the order of `combinations`, with overrides and users' packages for all of them.

    Raises UsageError for a wrong key of any of them, and for runs that the figure could not show.
    """
    place, lines = f"figure={figure.name}", combinations(figure.grid)
    _check_overrides(figure, lines, overrides)
    allowed = [f"packages=[{','.join(packages)}]"] if packages else []
    runs = [_compose_run(*allowed, *figure.overrides, *line, *overrides) for line in lines]
    _check_names(figure, runs, place)
    _check_curves(figure, runs, place)
    return runs


@cache
def _compose_run(*overrides: str) -> RunConfig:
    return load_run(overrides, [key.name for key in fields(Reproduction)])


def combinations(grid: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return every combination of one entry of each axis, as overrides. Spaces separate an entry's overrides, and may
    be in values too."""
    return [
        [override for entry in entries for override in re.split(r"\s+(?=[^\s=]+=)", entry.strip())]
        for entries in product(*grid)
    ]


def _check_overrides(figure: Figure, lines: Sequence[Sequence[str]], overrides: Sequence[str]) -> None:
    place = f"figure={figure.name}"
    of_grid = [text for line in lines for text in line]
    for text in split([*figure.overrides, *overrides, *of_grid], ["packages"])[0]:
        raise UsageError(f"{place}: {text}: only the command line may allow a package; put it beside figure=")
    keys = {text.partition("=")[0] for text in of_grid}
    for text in overrides:
        if text.partition("=")[0] in keys:
            raise UsageError(f"{text}: the figure itself sets this key, differently for each of its runs")


def _check_names(figure: Figure, runs: Sequence[RunConfig], place: str) -> None:
    methods, tasks = ({getattr(run, group).name for run in runs} for group in ("algorithm", "task"))
    for claim in figure.claims:
        if missing := claim.check.named_methods - methods:
            names = ", ".join(sorted(missing))
            raise UsageError(f"claim {claim.number} is about {names}: not among the figure's algorithms")
    looks = {(run.algorithm.display["label"], run.algorithm.name) for run in runs}
    for label, times in Counter(label for label, _ in looks).items():
        if times > 1:
            names = ", ".join(sorted(name for other, name in looks if other == label))
            raise UsageError(f"{place}: {names} are all called {label}; give each an algorithm.display.label")
    for name in {name for family in figure.families for name in family} - methods:
        raise UsageError(explain_unknown(f"{place}: families={name}: no such choice", name, sorted(methods)))
    for name in [row.task for row in figure.rows if row.task not in (None, *tasks)]:
        raise UsageError(explain_unknown(f"{place}: rows: task={name}: no such choice", str(name), sorted(tasks)))
    for run in runs if figure.published else ():
        name = run.algorithm.name
        if name not in figure.published:
            raise UsageError(f"{place}: published has no step size of {name}; give every method one, or none")
        if figure.held_out is None and figure.published[name] not in run.lr:
            raise UsageError(f"{place}: published.{name}={figure.published[name]}: not among {list(run.lr)}")
    if figure.step_size != "best" and not any(figure.step_size in run.lr for run in runs):
        raise UsageError(f"{place}: step_size={figure.step_size}: no run has this step size")


def _check_curves(figure: Figure, runs: Sequence[RunConfig], place: str) -> None:
    """Raise UsageError if two runs would become one curve. Runs that are single points may share one."""
    over_batches = any(panel.x == "batch_size" for panel in figure.rows)
    places = [run.task.options.get("batch_size") if over_batches else run.rounds for run in runs]
    if None in places:
        task = runs[places.index(None)].task.name
        raise UsageError(f"{place}: rows: x=batch_size: {task} has none, so it would not be drawn")
    are_points = any(isinstance(derivation, MinimumOverRounds) for derivation in figure.derive)
    curves = Counter(
        (run.task.name, run.algorithm.name, at if are_points else None, run.seed, lr)
        for run, at in zip(runs, places, strict=True)
        for lr in run.lr
    )
    for (task, method, *_), times in curves.items():
        if times > 1:
            raise UsageError(
                f"{method} on {task} appears twice in the figure; give the runs different task.name, or different "
                "algorithm.name and algorithm.display.label"
            )
