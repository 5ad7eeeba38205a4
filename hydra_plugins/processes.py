"""Hydra's launcher for this machine: the runs of a sweep in processes of their own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from common.errors import UsageError, exit_with_message


class Processes(Launcher):
    """Runs what is not finished, `jobs` at once, lists what failed, and returns what each run is selected by.

    All cells are composed and checked before the first is started. One that failed returns NaN, which a sweeper that
    searches step sizes takes for a trial that failed; `hydra_plugins.study` ends the command with status 1.
    """

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._config, self._composed = config, {}
        loader = hydra_context.config_loader
        self._compose = loader.load_sweep_config
        # A sweeper composes every run to see whether it can be, and again to hand it over: once is enough.
        setattr(loader, "load_sweep_config", self._once)  # noqa: B010

    def _once(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        line = tuple(sweep_overrides)
        if line not in self._composed:
            self._composed[line] = self._compose(master_config, sweep_overrides)
        return self._composed[line]

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        with exit_with_message():
            return self._launch([list(line) for line in job_overrides])

    def _launch(self, lines: list[list[str]]) -> list[JobReturn]:
        from experiments.config.compose import packages_of, resolved
        from experiments.config.run import LAUNCH, launch_of, read

        configs = [resolved(self._once(self._config, line)) for line in lines]
        packages = packages_of(self._config.hydra.overrides.task)
        runs = [read(config, packages) for config in configs]
        if not runs:
            raise UsageError("no run in this sweep: what a glob(...) says matches no choice")
        launch, *others = [launch_of(config) for config in configs]
        for key in LAUNCH:
            if any(getattr(other, key) != getattr(launch, key) for other in others):
                raise UsageError(f"{key}: has one value, for all runs of a sweep")
        # torch, once every configuration is known to be right
        from experiments.sweep.cells import cells
        from experiments.sweep.sweep import sweep
        from hydra_plugins import study

        found = cells(lines, runs, _name(self._config))
        failed = sweep(found, launch)
        study.note(found, failed, launch)
        choices = [None if launch.dry_run or one in failed else one.choice(launch.select).value for one in found]
        return [
            JobReturn(overrides=line, status=JobStatus.COMPLETED, _return_value=math.nan if value is None else value)
            for line, value in zip(lines, choices, strict=True)
        ]


def _name(config: DictConfig) -> str:
    """What a sweep without a `study` is called: the same for the same command line, however it is started."""
    from experiments.config.compose import split
    from experiments.config.run import LAUNCH

    overrides = split(config.hydra.overrides.task, LAUNCH)[1]
    digest = hashlib.sha256(" ".join(sorted(overrides)).encode()).hexdigest()[:8]
    return f"{config.hydra.runtime.choices.get('sweep') or 'sweep'}-{digest}"
