"""Train one configuration, or with -m every combination of a sweep.

    python -m experiments.run algorithm=cd_adam task=logreg/a9a lr=0.003
    python -m experiments.run algorithm=cd_adam lr=[0.001,0.003]        a grid of step sizes, trained as one batch
    python -m experiments.run -m algorithm=cd_adam,ef21 seed=0,1,2 jobs=2      six runs, two at once
    python -m experiments.run sweep=step_sizes                          a sweep of conf/sweep
    torchrun --standalone --nproc-per-node=4 -m experiments.run         the workers over four processes

This is a Hydra application: --help lists the groups and keys, --cfg job prints a configuration, and Hydra's
overrides, sweeps, launchers and completion work. Finished runs are skipped, and interrupted ones resume.
"""

from contextlib import nullcontext

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from common.errors import exit_with_message
from experiments.config.application import resume_collection, start
from experiments.config.compose import CONF, packages_of, resolve
from experiments.config.run import launch_of, read_run, refuse_ignored_epochs
from experiments.orchestration.processes import start_server


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def application(composed: DictConfig) -> float | None:
    """Train one run. Hydra or one of its launchers calls this; a launcher counts an error as a failed run.

    In a sweep it returns the value that sweepers select by, or NaN if the run cannot win.
    """
    command = HydraConfig.get()
    with exit_with_message() if command.mode is RunMode.RUN else nullcontext():
        config = resolve(composed)
        run = read_run(config, packages_of(command.overrides.task))
        refuse_ignored_epochs(command.overrides.task, config)
        # these import torch, once the configuration is valid
        from experiments.orchestration.sweep import train
        from experiments.training.build import check_direction

        launch = launch_of(config)
        check_direction(run, launch.select, command.sweeper)
        resume_collection()
        cell = train(run, launch)
        return cell.value(launch.select) if command.mode is RunMode.MULTIRUN else None


def main(arguments: list[str] | None = None) -> None:
    start(application, "run", __doc__ or "", arguments, before_sweep=start_server)


if __name__ == "__main__":
    main()
