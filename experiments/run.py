"""Train one configuration, or with -m every combination of a sweep.

    python -m experiments.run algorithm=cd_adam task=logreg/a9a lr=0.003
    python -m experiments.run algorithm=cd_adam lr=[0.001,0.003]        a grid of step sizes, trained as one batch
    python -m experiments.run -m algorithm=cd_adam,ef21 seed=0,1,2      six runs
    python -m experiments.run algorithm=naive --cfg job                 print the resolved configuration
    torchrun --standalone --nproc-per-node=4 -m experiments.run cluster.workers=20     the workers over four processes

Finished runs are skipped, interrupted ones go on where they were. Valid keys and choices: conf/.
"""

from __future__ import annotations

import argparse

import yaml

from data.errors import DataError
from experiments.build import check
from experiments.compose import expand
from experiments.config import load_run
from experiments.errors import RunError, UsageError, exit_with_message
from experiments.identity import folder as folder_of
from experiments.runner import run
from experiments.session import session


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
    options = parser.parse_intermixed_args(arguments)
    with exit_with_message():
        configs = [load_run(overrides) for overrides in expand(options.overrides, options.multirun)]
        for config in configs:
            check(config)
        if options.cfg:
            print(yaml.safe_dump_all(configs, sort_keys=False, allow_unicode=True), end="")
            return
        with session(configs) as (ranks, display):
            failed = 0
            for config in configs:
                try:
                    folder = run(config, display, ranks)
                    if ranks.is_first:
                        for trial in folder.summary()["trials"]:
                            display.say(_line(trial["final"]))
                        display.say(f"results: {folder.path}")
                except (RunError, UsageError, DataError) as error:
                    if len(configs) == 1 or ranks.size > 1:  # other ranks may be at another run by now
                        raise
                    failed += 1
                    display.say(f"failed: {folder_of(config)}: {error}")
        if failed:
            raise RunError(f"{failed} of {len(configs)} runs failed, see above; the others are done")


def _line(row: dict) -> str:
    """A trial's last row in words."""
    measured = ", ".join(
        f"{name} {row[name]:.4g}"
        for name in ("train_loss", "grad_norm", "train_accuracy", "test_accuracy")
        if name in row
    )
    return f"lr {row['lr']:g}: {measured} after {row['round']} rounds and {row['bits']} bits"


if __name__ == "__main__":
    main()
