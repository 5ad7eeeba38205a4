"""Which budget of a figure is for this machine: by the time that a few rounds take on it."""

from collections.abc import Callable, Sequence

from common.errors import UsageError
from common.progress import duration
from experiments.cluster.launch import launch as place_of
from experiments.config import figure as figures
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.planning import held_out
from experiments.planning.estimate import Share, among, estimate
from experiments.sweep.parallel import settled
from plots.figure.spec import Figure

PATIENCE = 2 * 3600.0
"""Seconds that a figure may take which nobody gave a budget."""


def affordable(
    candidates: Sequence[Figure],
    overrides: Sequence[str],
    packages: Sequence[str],
    launch: LaunchConfig,
    say: Callable[[str], object],
) -> Figure:
    """The first of the figures, the largest being first, whose missing runs take at most PATIENCE; else the last.

    Raises UsageError where several processes would have to agree on what each of them timed.
    """
    if place_of() is not None:
        raise UsageError("budget=auto: one process alone can time itself; with several, name one, budget=full say")
    for figure in candidates[:-1]:
        runs = _runs(figure, overrides, packages)
        jobs = settled(launch, runs).jobs or 1
        missing, seconds = estimate([among(run, jobs) for run in runs], Share(launch.ranks), say)
        seconds /= min(jobs, max(missing, 1))
        taken = seconds <= PATIENCE
        say(f"budget {figure.budget}: about {duration(seconds)}{'' if taken else ', too long for budget=auto'}")
        if taken:
            return figure
    return candidates[-1]


def _runs(figure: Figure, overrides: Sequence[str], packages: Sequence[str]) -> list[RunConfig]:
    """All that it takes; those with step sizes that are not known yet are as many as those with published ones."""
    if figure.held_out is None:
        return figures.runs(figure, overrides, packages)
    both, is_known = held_out.both_steps(figure, overrides, packages)
    runs = figures.runs(both, (), packages)
    return runs if is_known else runs + [run for run in runs if run.seed != figure.held_out]
