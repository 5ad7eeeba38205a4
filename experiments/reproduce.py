"""Reproduce a figure: run what is missing, draw it, and write the table of claims.

    python -m experiments.reproduce figure=figure_2
    python -m experiments.reproduce figure=figure_2 rounds=100 data_dir=path/to/files
    python -m experiments.reproduce figure=figure_3 budget=quick seeds=[0,1,2]
    python -m experiments.reproduce figure=figure_3 jobs=4 ranks=2

`figure`, `budget` and `seeds` are about the figure, the keys of conf/launch.yaml about how its runs are started, by
default one after the other in this process; all other keys go to every run. A figure can have a budget `full`, the
paper's setting, and one `quick`, for a small machine without a GPU, which is marked on the figure; `auto` takes the
first where there is a GPU. Runs already finished are used as they are, interrupted ones go on. What is written lies
in <results_dir>/figures/<name>/, with the budget and the overrides that change the figure in the folder's name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from rich.console import Console

from common.errors import UsageError, exit_with_message
from common.progress import duration
from experiments.config import identity
from experiments.config.compose import Config, expand, key_of, load, value_of
from experiments.config.figure import check_figure, completed
from experiments.config.run import load_run
from experiments.planning import cost as plan
from experiments.planning.estimate import estimate
from experiments.sweep import launching
from experiments.sweep.grid import as_cells, combinations, words
from experiments.sweep.sweep import sweep
from experiments.training.build import check
from experiments.training.runner import run
from experiments.training.session import session
from plots.claims.claims import ROLES
from plots.figure.publish import report
from plots.runs.columns import higher_is_better

ELSEWHERE = (
    *("results_dir", "data_dir", "threads", "device", "cluster.timeout", "checkpoint_every"),
    *("logger", "study", "packages"),
)
"""Keys that leave a figure the same, with all below them; others are part of its folder's name."""

ABOUT_FIGURE = ("figure", "budget", "seeds")
"""Keys that are not those of runs, and what begins with `figure.`."""


def planned(composed: Config) -> Config:
    """The figure of conf/reproduce.yaml with its budget chosen and its seeds an axis of its grid.

    What is null counts as left out. Raises UsageError for a budget that the figure does not have, and for anything
    in the figure that could not be drawn or judged once its runs are done.
    """
    figure, budget, seeds = completed(composed.get("figure")), composed["budget"], composed["seeds"]
    budgets = figure.pop("budgets")
    if budget == "auto" and budgets and composed.get("submit"):
        raise UsageError(f"budget=auto: what it will run on is not known here; say {' or '.join(budgets)}")
    if budget == "auto":
        budget = "full" if torch.cuda.is_available() else "quick"
        budget = budget if budgets else None
    elif budget not in budgets:
        known = " and ".join(budgets) or "one setting only, leave it out"
        raise UsageError(f"budget={budget}: figure={figure['name']} has {known}")
    if budget:
        chosen = budgets[budget]
        overrides = [*figure["overrides"], *(chosen.get("overrides") or [])]
        figure = {**figure, **chosen, "overrides": overrides, "name": figure["name"]}
    check_figure(figure)
    if seeds is not None:
        if not isinstance(seeds, list) or len(set(map(str, seeds))) < len(seeds):
            raise UsageError(f"seeds={seeds}: must be a list of different whole numbers, [0,1,2] say")
        figure["grid"] = [*figure["grid"], [f"seed={seed}" for seed in seeds]]
    if "of_claim" in figure:  # whose own claims are cases of that one
        claims = [{**claim, "number": f"{figure['of_claim']} ({claim['number']})"} for claim in figure["claims"]]
        figure["claims"] = claims
    return {**figure, "budget": budget}


def cells(figure: Config, overrides: list[str], also: Config | None = None) -> list[Config]:
    """The configurations of a figure's runs, all of them checked; messages about a wrong key know those of `also`."""
    if not figure["grid"] or not all(figure["grid"]) or not figure["rows"]:
        raise UsageError(f"figure={figure['name']}: its grid and its rows of panels must not be empty")
    metric = (figure.get("select") or {}).get("metric", "grad_norm")
    if higher_is_better(metric):
        raise UsageError(f"figure={figure['name']}: select.metric={metric}: select by one of which less is better")
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
    for cell in combinations(figure["grid"]):
        config = load_run([*figure["overrides"], *cell, *overrides], also)
        check(config, here=not (also or {}).get("submit"))
        configs.append({**config, "study": config["study"] or figure["name"]})
    step_size = figure.get("step_size", "best")
    if step_size != "best" and not any(step_size in config["lr"] for config in configs):
        raise UsageError(
            f"figure={figure['name']}: step_size={step_size}: none of its runs has this one among its lr"
        )
    curves = [
        (config["task"]["name"], config["algorithm"]["name"], config["rounds"], config["seed"]) for config in configs
    ]
    for curve in curves:
        if curves.count(curve) > 1:
            raise UsageError(
                f"{curve[1]} on {curve[0]} stands twice in the figure: its curves would become one; give the runs "
                "different task.name or algorithm.name"
            )
    return configs


def _overrides(figure: Config) -> list[str]:
    """Everything the grid sets."""
    return [override for entries in figure["grid"] for entry in entries for override in words(entry)]


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
        keys = launching.defaults("launch")
        about, of_runs = launching.split(overrides, {*ABOUT_FIGURE, *keys})
        composed = load(about, "reproduce", packages=value_of("packages", of_runs) or ())
        launch = {key: composed[key] for key in keys}
        launching.check(launch)
        figure = planned(composed)
        configs = cells(figure, of_runs, also=composed)
        if launching.apart(launch):
            sweep(as_cells(combinations(figure["grid"]), configs), launch)
        elif launch["dry_run"]:
            plan.show(configs, launch, Console())
        elif not _run_here(configs):
            return
        if launch["dry_run"] or launch["submit"]:
            return
        unchanging = {*ELSEWHERE, *keys, "figure", "budget"}
        changed = [override for override in overrides if not _below(override, unchanging)]
        parts = [figure["name"], *([figure["budget"]] if figure["budget"] else []), *changed]
        target = Path(configs[0]["results_dir"], "figures", "-".join(parts).replace("/", "_"))
        report([identity.folder(config) for config in configs], figure, target, Console())


def _run_here(configs: list[Config]) -> bool:
    """Run one after the other, in this process or in the ranks of this launch. Returns whether this is the first."""
    with session(configs) as (ranks, display):
        missing, seconds = estimate(configs, ranks)
        if missing:
            display.say(f"{missing} of {len(configs)} runs to do, about {duration(seconds)} by a trial of each task")
        for config in configs:
            run(config, display, ranks)
    return ranks.is_first


def _below(override: str, keys: set[str]) -> bool:
    """Whether an override sets one of the keys, or what lies below it."""
    key = key_of(override)
    return any(key == other or key.startswith(f"{other}.") for other in keys)


if __name__ == "__main__":
    main()
