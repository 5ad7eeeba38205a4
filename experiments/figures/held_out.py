"""Choose step sizes on a separate seed, before the judged runs.

So no judged curve takes part in the choice, and every method has the same number of trials."""

from collections.abc import Sequence

from common.errors import UsageError
from experiments.cluster.launch import read_launch
from experiments.config.compose import parse
from experiments.figures.runs import combinations, runs_of
from experiments.run_store.folder import RunFolder
from plots.figure.spec import Figure
from plots.runs.best import mark_best
from plots.runs.read import open_run, table

Best = dict[tuple[str, str], float]
"""Step sizes by task and method."""


def trials(figure: Figure, overrides: Sequence[str], packages: Sequence[str]) -> Figure:
    """Return the first step: a run for every step size of the grid, on the held-out seed. The overrides become the
    figure's. Raises UsageError."""
    if read_launch() is not None:
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
    trial_lines = [
        _line(line, lr, figure.held_out, *_rounds(figure.trial_share, run.rounds), *figure.trial_overrides)
        for line, run in lines
        for lr in run.lr
    ]
    return _with_lines(figure, overrides, trial_lines)


def best_step_sizes(first: Figure, packages: Sequence[str]) -> Best:
    """Return the best step sizes of the trials, none until all trials are over. A diverged trial cannot win."""
    folders = [RunFolder.of_run(run) for run in runs_of(first, (), packages)]
    if not all(folder.is_over() for folder in folders):
        return {}
    frame = mark_best(table([open_run(folder.path) for folder in folders]), first.select)
    columns = (frame.loc[frame["best"], name].tolist() for name in ("task", "algorithm", "lr"))
    return {(task, method): lr for task, method, lr in zip(*columns, strict=True)}


def both_steps(figure: Figure, overrides: Sequence[str], packages: Sequence[str]) -> tuple[Figure, bool]:
    """Return the trials with the judged runs, and whether the best step sizes are known. The judged runs have the
    published and, if known, the best step size of every method, with every seed. Raises UsageError."""
    first = trials(figure, overrides, packages)
    best = best_step_sizes(first, packages)
    lines = [entry for axis in first.grid for entry in axis]
    for line, run in zip(combinations(figure.grid), runs_of(figure, overrides, packages), strict=True):
        wanted = [figure.published.get(run.algorithm.name), best.get((run.task.name, run.algorithm.name))]
        lines += [_line(line, lr, seed) for seed in figure.seeds for lr in wanted if lr is not None]
    return _with_lines(figure, overrides, lines), bool(best)


def _rounds(share: float, rounds: int) -> list[str]:
    return [f"rounds={max(1, round(share * rounds))}"] if share < 1 else []


def _line(line: Sequence[str], lr: float, seed: int | None, *more: str) -> str:
    kept = [text for text in line if parse(text).key_or_group not in ("lr", "seed")]
    return " ".join([*kept, f"lr={lr}", f"seed={seed}", *more])


def _with_lines(figure: Figure, overrides: Sequence[str], lines: Sequence[str]) -> Figure:
    return figure.replace(grid=(tuple(dict.fromkeys(lines)),), overrides=(*figure.overrides, *overrides))
