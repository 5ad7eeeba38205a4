"""Reproduce a figure: run what is missing, draw it, and write the table of claims.

    python -m experiments.reproduce figure=figure_2
    python -m experiments.reproduce figure=figure_2 rounds=100 data_dir=path/to/files

Keys beginning with `figure` are the figure's; all others go to every one of its runs. Runs already finished are
used as they are, interrupted ones go on. What is written lies in <results_dir>/figures/<name>/.
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
from plots.report import report


def cells(figure: Config, overrides: list[str]) -> list[Config]:
    """The configurations of a figure's runs, all of them checked."""
    if not figure["grid"] or not all(figure["grid"]) or not figure["rows"]:
        raise UsageError(f"figure={figure['name']}: its grid and its rows of panels must not be empty")
    ours = {
        override.partition("=")[0] for entries in figure["grid"] for entry in entries for override in entry.split()
    }
    for override in overrides:
        if override.partition("=")[0] in ours:
            raise UsageError(f"{override}: the figure itself sets this key, differently for each of its runs")
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
        configs = cells(figure, [override for override in overrides if override not in about_figure])
        with Display(sum(config["rounds"] for config in configs)) as display:
            folders = [run(config, display).path for config in configs]
        target = Path(configs[0]["results_dir"], "figures", figure["name"])
        report(folders, figure, target, Console())


if __name__ == "__main__":
    main()
