"""Hydra plugins for sweeps: a grid sweeper, a launcher of local processes, and a final report."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from common.errors import RunError, UsageError, exit_with_message
from experiments.config.application import resume_collection
from experiments.config.compose import Config, compose, packages_of, resolve, split
from experiments.config.run import LAUNCH, launch_of, read_run, refuse_ignored_epochs
from experiments.config.schema import RunConfig
from experiments.orchestration.processes import start_server

if TYPE_CHECKING:
    from experiments.orchestration.study import Cell

_launched: list[tuple[list[Cell], list[Cell]]] = []
"""Batches of this command's cells, each with the failed ones."""


class Grid(BasicSweeper):
    """Hydra's basic sweeper, which checks every configuration before the first run starts, with any launcher. It
    writes no multirun.yaml, because the study's folder says more."""

    def sweep(self, arguments: list[str]) -> list[object]:
        assert self.hydra_context is not None
        assert self.config is not None
        assert self.launcher is not None
        returned: list[object] = []
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(
            [*self._parse_config(), *arguments]
        )
        batches = self.split_arguments(overrides, self.max_batch_size)
        if not isinstance(self.launcher, Processes):  # which reads them itself
            lines = [line for batch in batches for line in batch]
            composed = _compose(lines, self.config)
            with exit_with_message():
                _read(lines, composed, self.config)
        for batch in batches:
            jobs = self.launcher.launch(batch, initial_job_idx=len(returned))
            returned += [job.return_value for job in jobs]  # raises the error of a failed job
        return returned


class Processes(Launcher):
    """A launcher that runs unfinished cells, `jobs` at once, and lists the failed ones.

    A searching sweeper gets each run's value of `select`. It gets NaN for a failed run, which counts as a failed
    trial. `Study` then ends the command with status 1.
    """

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        lines = [list(line) for line in job_overrides]
        if not self._config.dry_run:
            start_server()  # it imports on another core while the runs are composed
        # Outside the block, because the application explains Hydra's errors.
        composed = _compose(lines, self._config)
        with exit_with_message():
            configs, runs = _read(lines, composed, self._config)
            for key in (*LAUNCH, "results_dir", "study"):
                if any(one[key] != configs[0][key] for one in configs):
                    raise UsageError(f"{key}: must be the same for all runs of a sweep")
            launch = launch_of(configs[0])
            # these import torch, once every configuration is valid
            from experiments.orchestration.study import cells
            from experiments.orchestration.sweep import sweep
            from experiments.training.build import check_direction

            for one in runs:
                check_direction(one, launch.select, self._config.hydra.sweeper)
            found = cells(lines, runs, _name(self._config))
            resume_collection()
            failed = sweep(found, launch)
            if not launch.dry_run:
                _launched.append((found, failed))
            values = [cell.value(launch.select) if _searches(self._config) else None for cell in found]
            return [
                JobReturn(line, status=JobStatus.COMPLETED, _return_value=value)
                for line, value in zip(lines, values, strict=True)
            ]


class Study(Callback):
    """Hydra's callback before and after the runs of a sweep."""

    def on_multirun_start(self, config: DictConfig, **others: Any) -> None:
        """Refuse dry_run for a search, because its runs depend on results."""
        with exit_with_message():
            if config.dry_run and _searches(config):
                sweeper = config.hydra.runtime.choices["hydra/sweeper"]
                raise UsageError(
                    f"dry_run=true: hydra/sweeper={sweeper} chooses runs by results, so they cannot be planned; plan "
                    "one of its runs, without -m"
                )

    def on_multirun_end(self, config: DictConfig, **others: Any) -> None:
        """Print the best step sizes over all runs of the study. Exit with status 1 if a run failed."""
        batches, _launched[:] = list(_launched), []
        if not batches:
            return
        from experiments.orchestration.study import report

        cells, failed = ([cell for part in parts for cell in part] for parts in zip(*batches, strict=True))
        with exit_with_message():
            report(cells, config.select, _flags(config))
            if failed:
                raise RunError(f"{len(failed)} of {len(cells)} runs failed, see above; the others are done")


def _searches(config: DictConfig) -> bool:
    """Whether the sweeper chooses runs by the results of earlier ones."""
    return config.hydra.runtime.choices["hydra/sweeper"] not in ("grid", "basic")


def _compose(lines: Sequence[Sequence[str]], config: DictConfig) -> list[DictConfig]:
    """Compose the configuration of each run, with the sweep's search path and resolved values, such as the time."""
    sources = [text for text in config.hydra.overrides.hydra if text.startswith("hydra.searchpath=")]
    composed = [compose([*sources, *line], config.hydra.job.config_name) for line in lines]
    for one in composed:
        OmegaConf.copy_cache(from_config=config, to_config=one)
    return composed


def _read(
    lines: Sequence[Sequence[str]], composed: Sequence[DictConfig], config: DictConfig
) -> tuple[list[Config], list[RunConfig]]:
    configs = [resolve(one) for one in composed]
    packages = packages_of(config.hydra.overrides.task)
    runs = [read_run(one, packages) for one in configs]
    for line, one in zip(lines, configs, strict=True):
        refuse_ignored_epochs(line, one)
    if not runs:
        raise UsageError("no run in this sweep: range(...) is empty, or glob(...) matches no choice")
    return configs, runs


def _flags(config: DictConfig) -> list[str]:
    folders = [one.path for one in config.hydra.runtime.config_sources if one.provider == "command-line"]
    primary = config.hydra.job.config_name
    flags = [f"--config-dir={folder}" for folder in folders]
    return flags if primary == "config" else [*flags, f"--config-name={primary}"]


def _name(config: DictConfig) -> str:
    """Name a sweep that has no `study`. Equal command lines give equal names, however they are started."""
    overrides = sorted(split(config.hydra.overrides.task, LAUNCH)[1])
    digest = hashlib.sha256(" ".join([*_flags(config), *overrides]).encode()).hexdigest()[:8]
    return f"{config.hydra.runtime.choices.get('sweep') or 'sweep'}-{digest}"
