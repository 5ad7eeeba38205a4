"""What `experiments.run` does with one checked run."""

from __future__ import annotations

from rich.console import Console

from experiments.config.schema import Launch, Run
from experiments.planning import cost
from experiments.sweep.sweep import alone
from experiments.training.build import check
from experiments.training.session import train_here
from plots.runs.choose import best
from plots.runs.read import open_run


def train(run: Run, launch: Launch) -> float:
    """Plan it, or bring it to its end in this process or in those of its own that `launch` asks for.

    Returns what a sweep selects by, NaN where there is nothing. Raises UsageError before anything is started.
    """
    check(run)
    if launch.dry_run:
        cost.show([run], launch, Console())
        return float("nan")
    apart = launch.ranks > 1 or launch.job_timeout is not None
    folder = alone(run, launch) if apart else train_here(run)
    if folder is None:
        return float("nan")
    [choice] = best([open_run(folder.path)], launch.select)
    return float("nan") if choice.value is None else choice.value
