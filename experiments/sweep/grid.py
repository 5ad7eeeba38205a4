"""The cells of a sweep: every combination of its grid and of the command line's values, composed and checked."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import product

from common.errors import RunError, UsageError
from experiments.config.compose import Config, expand, key_of
from experiments.config.identity import folder, of
from experiments.config.run import load_run
from experiments.record.folder import RunFolder
from experiments.training.build import check


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    name: str  # what sets it apart from the others
    overrides: tuple[str, ...]  # that its configuration was composed from
    config: Config
    id: str

    @property
    def run(self) -> RunFolder:
        """Where its results lie."""
        return RunFolder(folder(self.config))

    @property
    def is_finished(self) -> bool:
        """Whether it is done. Where that cannot be told it is not, and its process will say why."""
        try:
            return self.run.is_finished()
        except RunError:
            return False


def words(entry: str) -> list[str]:
    """The overrides of a grid's entry, which spaces tell apart; values may hold some too."""
    return re.split(r"\s+(?=[^\s=]+=)", entry.strip())


def combinations(grid: list[list[str]]) -> list[list[str]]:
    """One entry of every axis, in every way; an entry may set several keys."""
    return [[override for entry in entries for override in words(entry)] for entries in product(*grid)]


def command_lines(sweep: Config, overrides: list[str], multirun: bool = True) -> list[list[str]]:
    """The overrides of every run that a sweep of conf/sweep and a command line stand for.

    A key of the command line replaces the axis of the grid that sets it alone, and wins over the sweep's overrides.
    Raises UsageError where the grid sets it in another way.
    """
    axes, common = [list(axis) for axis in sweep["grid"]], []
    for key, text in {key_of(text): text for text in overrides}.items():
        values = [override for [override] in expand([text], multirun)]
        mine = [number for number, axis in enumerate(axes) if key in _keys(axis)]
        if mine and (len(mine) > 1 or _keys(axes[mine[0]]) != {key}):
            raise UsageError(
                f"{text}: the grid of sweep={sweep['name']} sets {key} together with other keys, or twice; leave it "
                "out, or write a grid of your own, a file in conf/sweep/"
            )
        if mine:
            axes[mine[0]] = values
        elif len(values) > 1:
            axes.append(values)
        else:
            common += values
    lines = [[*sweep["overrides"], *cell, *common] for cell in combinations(axes)]
    return [list({key_of(text): text for text in line}.values()) for line in lines]  # the last of each key


def compose_cells(launch: Config, overrides: list[str], multirun: bool = True) -> list[Cell]:
    """The runs of a command line, all of them composed and checked; without `multirun` it stands for one.

    Raises UsageError.
    """
    lines = command_lines(launch["sweep"], overrides, multirun)
    configs = [load_run(line, also=launch) for line in lines]
    for config in configs:
        check(config, here=not launch["submit"])
    return as_cells(lines, configs)


def as_cells(lines: list[list[str]], configs: list[Config]) -> list[Cell]:
    """The cells with these overrides and configurations."""
    shared = set.intersection(*map(set, lines))
    return [
        Cell(
            " ".join(text for text in line if text not in shared) or config["algorithm"]["name"],
            tuple(line),
            config,
            of(config),
        )
        for line, config in zip(lines, configs, strict=True)
    ]


def join(cells: list[Cell], launch: Config) -> None:
    """Note in the configurations that the cells are one sweep: the `study` that they are shown under."""
    ids = sorted({cell.id for cell in cells})  # the same for the same cells in any order
    study = f"{launch['sweep']['name']}-{hashlib.sha256(' '.join(ids).encode()).hexdigest()[:8]}"
    for cell in cells:
        cell.config["study"] = cell.config["study"] or study
        if launch["select"] and "job_type" in cell.config["logger"]:
            cell.config["logger"]["job_type"] = "tune"


def _keys(axis: list[str]) -> set[str]:
    return {key_of(override) for entry in axis for override in words(entry)}
