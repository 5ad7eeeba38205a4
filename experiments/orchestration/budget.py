"""budget=auto: the largest budget of a figure that this machine trains in two hours."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from common.errors import UsageError
from common.progress import format_duration
from experiments.cluster.launch import read_launch
from experiments.cluster.ranks import Ranks
from experiments.config.schema import LaunchConfig
from experiments.figures.runs import runs_of
from experiments.orchestration import plan
from experiments.training.build import device_of
from experiments.training.threads import cores
from plots.figure.spec import Figure

AT_MOST = 2 * 3600.0
"""Seconds that budget=auto lets a figure take."""


def choose_budget(
    candidates: Sequence[Figure],
    overrides: Sequence[str],
    packages: Sequence[str],
    launch: LaunchConfig,
    say: Callable[[str], object],
) -> Figure:
    """Return the first figure that takes at most AT_MOST, or else the last one, unmeasured. The largest is first.

    Finished runs count as if they were still to do, so the same machine keeps its budget. Raises UsageError.
    """
    if read_launch() is not None:
        raise UsageError(
            "budget=auto: only a single process can time budgets; with several, choose one, such as budget=full"
        )
    for figure in candidates[:-1]:
        seconds = _seconds(figure, overrides, packages, launch, say)
        outcome = "more than the two hours of budget=auto" if seconds > AT_MOST else "chosen"
        say(f"budget {figure.budget}: about {format_duration(seconds)} on this machine, {outcome}")
        if seconds <= AT_MOST:
            return figure
    say(f"budget {candidates[-1].budget}: chosen")
    return candidates[-1]


def _seconds(
    figure: Figure, overrides: Sequence[str], packages: Sequence[str], launch: LaunchConfig, say: Callable
) -> float:
    """Estimate the seconds of all runs of a figure. One run of each kind is timed."""
    runs, total, number, trials = runs_of(figure, overrides, packages), 0.0, 0.0, {}
    places = cores() if device_of(runs[0]) == "cpu" else torch.cuda.device_count()
    jobs = max(1, launch.jobs or places // launch.ranks)
    for run in runs:
        count = 1.0
        if figure.held_out is not None:  # a trial of each step size; the published and the best one per seed
            count = figure.trial_share * len(run.lr) + 2 * len(figure.seeds)
            run = replace(run, lr=run.lr[:1])
        if plan.kind(run) not in trials:
            trials[plan.kind(run)] = plan.run_trial(run, Ranks(launch.ranks), jobs, say)
        number, total = number + count, total + count * trials[plan.kind(run)].seconds(run)
    return total / max(1, min(jobs, int(number)))
