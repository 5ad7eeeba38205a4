"""Step sizes chosen on a seed of their own, before the runs that are judged: no curve that is judged took part in
choosing, and every method was given the same number of trials.
"""

from collections.abc import Sequence

from common.errors import UsageError
from experiments.cluster.launch import launch as place_of
from experiments.config.compose import parse
from experiments.figures.runs import combinations, runs_of
from experiments.run_store.folder import RunFolder
from plots.figure.spec import Figure
from plots.runs.best import mark_best
from plots.runs.read import open_run, table

Best = dict[tuple[str, str], float]
"""By task and method."""


def trials(figure: Figure, overrides: Sequence[str], packages: Sequence[str]) -> Figure:
    """The first step, with the overrides among its own: every step size of the grid, a run each, on the seed that is
    held out. Raises UsageError."""
    if place_of() is not None:
        raise UsageError(
            f"figure={figure.name}: one process chooses step sizes between the runs, and here there are several; "
            "start it alone, with ranks=N for N processes a run"
        )
    for text in overrides:
        if parse(text).key_or_group == "seed":
            raise UsageError(
                f"{text}: this figure chooses step sizes on a seed of its own; set the others by seeds=[0,1]"
            )
    lines = zip(combinations(figure.grid), runs_of(figure, overrides, packages), strict=True)
    found = [
        _line(line, lr, figure.held_out, *_rounds(figure.trial_share, run.rounds), *figure.trial_overrides)
        for line, run in lines
        for lr in run.lr
    ]
    return _of(figure, overrides, found)


def best_step_sizes(first: Figure, packages: Sequence[str]) -> Best:
    """What the first step came to; empty as long as a run of it goes on. One that diverged cannot be the best."""
    folders = [RunFolder.of(run) for run in runs_of(first, (), packages)]
    if not all(folder.is_over() for folder in folders):
        return {}
    frame = mark_best(table([open_run(folder.path) for folder in folders]), first.select)
    columns = (frame.loc[frame["best"], name].tolist() for name in ("task", "algorithm", "lr"))
    return {(task, method): lr for task, method, lr in zip(*columns, strict=True)}


def both_steps(figure: Figure, overrides: Sequence[str], packages: Sequence[str]) -> tuple[Figure, bool]:
    """The trials, and with every seed the published and the best step size of every method; and whether the best are
    known, without which they are left out. Raises UsageError."""
    first = trials(figure, overrides, packages)
    best = best_step_sizes(first, packages)
    found = [entry for axis in first.grid for entry in axis]
    for line, run in zip(combinations(figure.grid), runs_of(figure, overrides, packages), strict=True):
        wanted = [figure.published.get(run.algorithm.name), best.get((run.task.name, run.algorithm.name))]
        found += [_line(line, lr, seed) for seed in figure.seeds for lr in wanted if lr is not None]
    return _of(figure, overrides, found), bool(best)


def _rounds(share: float, rounds: int) -> list[str]:
    return [f"rounds={max(1, round(share * rounds))}"] if share < 1 else []


def _line(line: Sequence[str], lr: float, seed: int | None, *more: str) -> str:
    kept = [text for text in line if parse(text).key_or_group not in ("lr", "seed")]
    return " ".join([*kept, f"lr={lr}", f"seed={seed}", *more])


def _of(figure: Figure, overrides: Sequence[str], lines: Sequence[str]) -> Figure:
    return figure.replace(grid=(tuple(dict.fromkeys(lines)),), overrides=(*figure.overrides, *overrides))
