"""Train one configuration, or with -m every combination of a sweep, each in a process of its own.

    python -m experiments.run algorithm=cd_adam task=logreg/a9a lr=0.003
    python -m experiments.run algorithm=cd_adam lr=[0.001,0.003]        a grid of step sizes, trained as one batch
    python -m experiments.run -m algorithm=cd_adam,ef21 seed=0,1,2 jobs=2      six runs, two at once
    python -m experiments.run sweep=step_sizes                          a grid kept in conf/sweep
    python -m experiments.run algorithm=naive --cfg job                 print the resolved configuration
    python -m experiments.run ranks=4                                   the workers over four processes
    torchrun --standalone --nproc-per-node=4 -m experiments.run         the same

Finished runs are skipped, interrupted ones go on where they were. Valid keys and choices: conf/, of which launch.yaml
and multirun.yaml are about how runs are started.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml
from rich.console import Console

from common.errors import UsageError, exit_with_message
from experiments.config.compose import Config
from experiments.config.run import frozen
from experiments.planning import cost as plan
from experiments.sweep.grid import compose_cells, join
from experiments.sweep.launching import apart, launching
from experiments.sweep.sweep import sweep
from experiments.training.build import check
from experiments.training.runner import run
from experiments.training.session import session


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="run all combinations of comma-separated values"
    )
    parser.add_argument("--cfg", choices=["job"], help="print the resolved configuration and run nothing")
    parser.add_argument("--frozen", type=Path, metavar="FILE", help="train a resolved configuration, of a sweep say")
    options = parser.parse_intermixed_args(arguments)
    with exit_with_message():
        if options.frozen:
            if options.overrides or options.multirun:
                raise UsageError(f"--frozen {options.frozen}: is a whole configuration; nothing can be set besides")
            config = frozen(options.frozen)
            check(config)
            if options.cfg:
                print(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), end="")
            else:
                _train(config)
            return
        launch, overrides = launching(options.overrides)
        several = options.multirun or bool(launch["sweep"]["grid"])
        is_sweep = several or apart(launch)
        cells = compose_cells(launch, overrides, several)
        if is_sweep:
            join(cells, launch)
        configs = [cell.config for cell in cells]
        if options.cfg:
            print(yaml.safe_dump_all(configs, sort_keys=False, allow_unicode=True), end="")
        elif is_sweep:
            sweep(cells, launch)
        elif launch["dry_run"]:
            plan.show(configs, launch, Console())
        else:
            _train(configs[0])


def _train(config: Config) -> None:
    """One run in this process, alone or as one of the ranks of a launch."""
    with session([config]) as (ranks, display):
        folder = run(config, display, ranks)
        if ranks.is_first:
            for line in [*folder.outcome(), f"results: {folder.path}"]:
                display.say(line)


if __name__ == "__main__":
    main()
