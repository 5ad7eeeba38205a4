"""The budget of a figure for this machine: the largest that takes two hours at most."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import torch

from common.cores import cores
from common.errors import UsageError
from common.progress import duration
from experiments.cluster.launch import launch as place_of
from experiments.config.run import load_run
from experiments.config.schema import LaunchConfig, Reproduction
from experiments.figures.runs import combinations
from experiments.planning.estimate import Share, among, trial
from experiments.training.build import device_of
from plots.figure.spec import Figure

AT_MOST = 2 * 3600.0
"""Seconds that budget=auto lets a figure take."""

_OF_COST = ("task", "cluster", "rounds", "epochs")
"""Keys by which the runs of a figure differ in time."""


def choose_budget(
    candidates: Sequence[Figure],
    overrides: Sequence[str],
    packages: Sequence[str],
    launch: LaunchConfig,
    say: Callable[[str], object],
) -> Figure:
    """The first of the figures, the largest being first, that takes at most AT_MOST; else the last, unmeasured.

    Finished runs count as if they were still to do, so the same machine keeps its budget.
    Raises UsageError where several processes would each time their own.
    """
    if place_of() is not None:
        raise UsageError("budget=auto: it is timed by one process alone; with several, name one, such as budget=full")
    for figure in candidates[:-1]:
        seconds = _seconds(figure, overrides, packages, launch, say)
        outcome = "more than the two hours of budget=auto" if seconds > AT_MOST else "chosen"
        say(f"budget {figure.budget}: about {duration(seconds)} on this machine, {outcome}")
        if seconds <= AT_MOST:
            return figure
    say(f"budget {candidates[-1].budget}: chosen")
    return candidates[-1]


def _seconds(
    figure: Figure, overrides: Sequence[str], packages: Sequence[str], launch: LaunchConfig, say: Callable
) -> float:
    """Of all runs of a figure. One run of each task is timed for all of its methods."""
    by_task: dict[str, list[list[str]]] = defaultdict(list)
    for line in combinations(figure.grid):
        by_task[" ".join(text for text in line if text.startswith(_OF_COST))].append(line)
    let_in = [f"packages=[{','.join(packages)}]"] if packages else []
    also = [one.name for one in fields(Reproduction)]
    total = 0.0
    for lines in by_task.values():
        run = load_run([*let_in, *figure.overrides, *lines[0], *overrides], also)
        count = float(len(lines))
        if figure.held_out is not None:  # a trial of each step size; then the published and the best one by seeds
            count *= figure.trial_share * len(run.lr) + 2 * len(figure.seeds)
            run = replace(run, lr=run.lr[:1])
        places = cores() // launch.ranks if device_of(run) == "cpu" else torch.cuda.device_count()
        jobs = max(1, min(launch.jobs or places, int(count)))
        total += trial(among(run, jobs), Share(launch.ranks), say).seconds(run) * count / jobs
    return total
