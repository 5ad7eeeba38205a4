"""Reproduce a figure: run what is missing, draw it, and write the table of claims.

    python -m experiments.reproduce figure=figure_2
    python -m experiments.reproduce figure=figure_2 rounds=100 data_dir=path/to/files
    python -m experiments.reproduce figure=figure_3 budget=quick seeds=[0,1,2]
    python -m experiments.reproduce figure=figure_3 jobs=2 ranks=2

`figure`, `budget` and `seeds` choose the figure, and keys of `LaunchConfig` say how its runs start. All other keys go
to every run: python -m experiments.run --help. Budgets are `full` (the paper's setting), `large` and `medium` (the
paper's rounds with a smaller network) and `quick` (a check of the pipeline). `auto` times a few rounds of each and
takes the largest that this machine trains in two hours. Finished runs are used again, and interrupted ones resume.

The folder is <results_dir>/figures/<name>/; its name also has the budget and the overrides that change the figure. A
long name is cut and ends with a hash. If runs of a larger budget are committed (results-reference), their verdicts
come first.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig
from rich.console import Console

from common.errors import UsageError, exit_with_message, is_launched
from experiments.config import identity
from experiments.config.application import resume_collection, start
from experiments.config.compose import CONF, choices, packages_of, parse, resolve, split, value_of
from experiments.config.messages import refuse_misspelt
from experiments.config.run import launch_of
from experiments.config.schema import UNCHANGING, LaunchConfig, Reproduction, RunConfig
from experiments.figures.configuration import read_figure, reproduction_of
from experiments.figures.runs import combinations, runs_of
from experiments.orchestration.processes import start_server

if TYPE_CHECKING:
    from plots.figure.spec import Figure

OWN = [key.name for kind in (Reproduction, LaunchConfig) for key in fields(kind)]
"""Keys of the command itself, not of its runs."""


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="reproduce")
def application(composed: DictConfig) -> None:
    """Reproduce one figure. Hydra calls this."""
    with exit_with_message():
        config = resolve(composed)
        asked, launch = reproduction_of(config), launch_of(config, is_sweep=False)
        packages = packages_of(HydraConfig.get().overrides.task)
        for name in set(asked.packages) - set(packages):
            raise UsageError(f"packages=[{name}]: only the command line may allow a package: add packages=[{name}]")

        def pick(candidates: Sequence[Figure]) -> Figure:
            from experiments.orchestration.budget import choose_budget

            return choose_budget(candidates, asked.overrides, packages, launch, partial(print, file=sys.stderr))

        figure = read_figure(asked, pick)
        if launch.jobs != 1 and not launch.dry_run and not is_launched():
            start_server()  # it imports on another core while the runs are composed
        runs = runs_of(figure, asked.overrides, packages)
        resume_collection()
        if figure.held_out is not None:
            done, runs = _run_in_two_steps(figure, asked.overrides, packages, launch)
        else:
            done = _run_missing(figure, runs, launch)
        if done:
            places = {identity.folder(run): run for run in runs}
            _draw(places, figure, _folder(figure, asked, runs[0]))


def _draw(places: Mapping[Path, RunConfig], figure: Figure, target: Path) -> None:
    from experiments.figures.committed import report_committed
    from plots.figure.publish import print_tallies, publish, rows_of

    displays = {place: (run.task.display, run.algorithm.display) for place, run in places.items()}
    findings = publish(rows_of(places, figure, displays), figure, target)
    console = Console()
    report_committed(figure, target, console)
    if figure.claims:
        print_tallies(findings, figure, console)
    console.print(f"figure, curves and report: {target}", soft_wrap=True, highlight=False)


def main(arguments: Sequence[str] | None = None) -> None:
    start(application, "reproduction", __doc__ or "", arguments, move_overrides)


def move_overrides(overrides: Sequence[str]) -> list[str]:
    """Move the overrides of runs into one override of the key `overrides`. Raises UsageError."""
    for text in overrides:
        if parse(text).is_sweep_override():
            raise UsageError(f"{text}: a figure takes no sweeps; for several seeds write seeds=[0,1]")
    own, of_runs = split(overrides, [*OWN, "hydra"])
    if value_of("figure", own) is None:
        refuse_misspelt(of_runs, [*OWN, *(key.name for key in fields(RunConfig))], [CONF])
        raise UsageError(f"figure: which one? figure={', '.join(choices('figure', [CONF]))}")
    # as list elements in Hydra's grammar, escaped so that Hydra interpolates nothing in them
    quoted = [QuotedString(text.replace("${", "\\${"), Quote.single).with_quotes() for text in of_runs]
    return [*own, f"overrides=[{','.join(quoted)}]"] if quoted else own


def _run_in_two_steps(
    figure: Figure, overrides: Sequence[str], packages: list[str], launch: LaunchConfig
) -> tuple[bool, list[RunConfig]]:
    """Run the trials of step sizes, then the judged runs. Return whether to draw the figure, and its runs."""
    from experiments.figures import held_out

    first = held_out.trials(figure, overrides, packages)
    if not launch.dry_run and not _run_missing(first, runs_of(first, (), packages), launch):
        return False, []
    both, is_known = held_out.both_steps(figure, overrides, packages)
    if not is_known:
        print(f"more runs follow, with the best step sizes by seed {figure.held_out}", file=sys.stderr)
    runs = runs_of(both, (), packages)
    return _run_missing(both, runs, launch), runs


def _run_missing(figure: Figure, runs: list[RunConfig], launch: LaunchConfig) -> bool:
    """Run what is missing. Return whether this process draws the figure."""
    from experiments.orchestration.study import cells
    from experiments.orchestration.sweep import run_all

    budget = f", budget {figure.budget}" if figure.budget else ""
    return run_all(
        cells(combinations(figure.grid), runs, figure.name), launch, f"{figure.name}{budget}: {len(runs)} runs"
    )


def _folder(figure: Figure, asked: Reproduction, run: RunConfig) -> Path:
    changed = split(asked.overrides, UNCHANGING)[1]
    seeds = "" if asked.seeds is None else f"seeds={asked.seeds}".replace(" ", "")
    parts = filter(None, [figure.name, figure.budget, *changed, seeds])
    name = "-".join(parts).replace("/", "_")
    if len(name.encode()) > 150:  # file systems allow 255 bytes
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name.encode()[:140].decode(errors='ignore')}-{digest}"
    return Path(run.results_dir, "figures", name)


if __name__ == "__main__":
    main()
