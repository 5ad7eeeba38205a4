"""Reproduce a figure: run what is missing, draw it, and write the table of claims.

    python -m experiments.reproduce figure=figure_2
    python -m experiments.reproduce figure=figure_2 rounds=100 data_dir=path/to/files

Keys beginning with `figure` are the figure's; all others go to every one of its runs. Runs already finished are
used as they are, interrupted ones go on. What is written lies in <results_dir>/figures/<name>/, with the overrides
that change the figure in the folder's name.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

from rich.console import Console

from experiments.build import check
from experiments.config import Config, expand, load, load_run
from experiments.errors import UsageError, exit_with_message
from experiments.progress import Display
from experiments.runner import run
from plots.claims import ROLES
from plots.report import report

ELSEWHERE = ("results_dir=", "data_dir=", "threads=", "checkpoint_every=")
"""Overrides that leave a figure the same; others are part of its folder's name."""


def cells(figure: Config, overrides: list[str]) -> list[Config]:
    """The configurations of a figure's runs, all of them checked."""
    if not figure["grid"] or not all(figure["grid"]) or not figure["rows"]:
        raise UsageError(f"figure={figure['name']}: its grid and its rows of panels must not be empty")
    ours = {override.partition("=")[0] for override in _overrides(figure)}
    for override in overrides:
        if override.partition("=")[0] in ours:
            raise UsageError(f"{override}: the figure itself sets this key, differently for each of its runs")
    methods = {override.partition("=")[2] for override in _overrides(figure) if override.startswith("algorithm=")}
    for claim in figure.get("claims", []):
        named = {name for role in ROLES for name in _listed(claim.get(role, []))}
        if not named <= methods:
            missing = ", ".join(sorted(named - methods))
            raise UsageError(f"claim {claim['number']} is about {missing}: not among the figure's algorithms")
    configs = []
    for entries in product(*figure["grid"]):
        cell = [override for entry in entries for override in entry.split()]
        configs.append(load_run([*figure["overrides"], *cell, *overrides]))
        check(configs[-1])
    curves = [(config["task"]["name"], config["algorithm"]["name"], config["rounds"]) for config in configs]
    for curve in curves:
        if curves.count(curve) > 1:
            raise UsageError(
                f"{curve[1]} on {curve[0]} stands twice in the figure: its curves would become one; give the runs "
                "different task.name or algorithm.name"
            )
    return configs


def _overrides(figure: Config) -> list[str]:
    """Everything the grid sets."""
    return [override for entries in figure["grid"] for entry in entries for override in entry.split()]


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="+", metavar="key=value")
    options = parser.parse_args(arguments)
    with exit_with_message():
        [overrides] = expand(options.overrides, multirun=False)
        about_figure = [override for override in overrides if override.startswith("figure")]
        figure = load(about_figure, "reproduce")["figure"]
        of_runs = [override for override in overrides if override not in about_figure]
        configs = cells(figure, of_runs)
        with Display(sum(config["rounds"] for config in configs)) as display:
            folders = [run(config, display).path for config in configs]
        changed = [override for override in of_runs if not override.startswith(ELSEWHERE)]
        target = Path(configs[0]["results_dir"], "figures", "-".join([figure["name"], *changed]).replace("/", "_"))
        report(folders, figure, target, Console())


if __name__ == "__main__":
    main()
