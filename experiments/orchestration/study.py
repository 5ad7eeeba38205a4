"""A study: its runs, and its own files on disk."""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console

from common import tables
from common.errors import RunError
from common.files import atomic_write, hold_lock, refuse_links
from experiments.config.compose import split
from experiments.config.run import LAUNCH, config_of
from experiments.config.schema import RunConfig
from experiments.run_store.folder import RunFolder
from plots.runs.find import drop_damaged, find, select_study
from plots.runs.read import open_run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Cell:
    """One run. `name` tells it apart from the others, and `overrides` gave its configuration."""

    name: str
    overrides: tuple[str, ...]
    run: RunConfig

    @cached_property
    def folder(self) -> RunFolder:
        """The folder of its results."""
        return RunFolder.of_run(self.run)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.folder.path.name

    @property
    def is_finished(self) -> bool:
        """Whether it is done. A damaged one is not, and its process will say why."""
        try:
            return self.folder.is_finished()
        except RunError:
            return False

    def value(self, rule: str | None) -> float:
        """Return the value that a sweeper selects by; NaN if it is unfinished or cannot win. Raises UsageError."""
        return self._choice(rule)["value"] if self.is_finished else math.nan

    def outcome(self, rule: str | None) -> str:
        """Describe the result of a finished run with its best step size."""
        lines = self.folder.outcome()
        if len(lines) == 1:
            return lines[0]
        chosen = self._choice(rule)["lr"]
        which = self.run.lr.index(chosen) if chosen in self.run.lr else 0
        return f"{lines[which]}, best of {len(lines)} step sizes"

    def _choice(self, rule: str | None) -> "pd.Series":
        from plots.runs.best import choose_step_sizes  # and pandas, which a single run does without

        return choose_step_sizes([open_run(self.folder.path)], rule).iloc[0]


def cells(lines: Sequence[Sequence[str]], runs: Sequence[RunConfig], study: str | None) -> list[Cell]:
    """Return the cells of these overrides and runs, shown under `study` unless a run sets its own.

    A single run has no study.
    """
    shared = set.intersection(*map(set, lines))
    return [
        Cell(
            " ".join(text for text in line if text not in shared) or run.algorithm.name,
            tuple(line),
            replace(run, study=run.study or study),
        )
        for line, run in zip(lines, runs, strict=True)
    ]


class StudyFolder:
    """results/sweeps/<study>/, of a single run results/sweeps/<id>/

    cells.txt        the ids of its runs, from all commands, in the order they came
    selection.csv    the best step size of each method
    jobs/<id>.yaml   a run's configuration, resolved
    jobs/<id>.log    the output of its process, try after try
    """

    def __init__(self, results_dir: str, study: str) -> None:
        self.path = Path(results_dir, "sweeps", study)

    def job(self, id: str) -> Path:
        """Return the file of the configuration that a run is started from."""
        return self.path / "jobs" / f"{id}.yaml"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other commands out of the study. Raises RunError if one is under way."""
        self.path.mkdir(parents=True, exist_ok=True)
        refuse_links(self.path, "jobs/*")
        with hold_lock(self.path / ".lock", "sweep", "results_dir", patience=0):
            yield

    def freeze(self, cells: Iterable[Cell]) -> None:
        """Write each configuration atomically, and then add the cells to the study."""
        for cell in cells:
            with atomic_write(self.job(cell.id)) as file:
                file.write_text(
                    yaml.dump(config_of(cell.run), None, yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
                )
        listed = self.path / "cells.txt"
        before = listed.read_text().split() if listed.exists() else []
        with atomic_write(listed) as file:
            file.write_text("".join(f"{id}\n" for id in dict.fromkeys([*before, *(cell.id for cell in cells)])))


def report(cells: Sequence[Cell], rule: str | None, flags: Sequence[str] = ()) -> None:
    """Print the best step sizes over all runs of the cells' study, with their rules, and write them to selection.csv.

    If a best run is one of these cells, print the command that runs it. flags: the sweep's flags that this command
    needs too. Raises UsageError, see `choose_step_sizes`.
    """
    from plots.runs.best import choose_step_sizes

    results, study = Path(cells[0].run.results_dir), str(cells[0].run.study)
    choices = choose_step_sizes(drop_damaged(select_study(find(results), results, study)), rule)
    each: list[Any] = list(choices.itertuples())
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for words in filter(None, choices["rule"].unique()):
        console.print(f"best: {words}")
    columns = ["task", "algorithm", "settings", "best lr", "value", "runner-up", "note"]
    rows = [
        [choice.task, choice.algorithm, choice.settings, _number(choice.lr), _number(choice.value),
         f"{_number(choice.second)} ({_number(choice.second_value)})" if choice.second > 0 else "–", choice.note]
        for choice in each
    ]  # fmt: skip
    tables.print_table(console, columns, rows)
    begun = {cell.id: cell.overrides for cell in cells}
    for choice in each:
        if choice.run in begun:
            own = split(begun[choice.run], [*LAUNCH, "lr", "seed"])[1]
            command = ["python", "-m", "experiments.run", *flags, *own, f"lr={choice.lr!r}"]
            console.print(shlex.join(command))
    with atomic_write(StudyFolder(str(results), study).path / "selection.csv") as file:
        tables.write_csv(choices, file)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g}"
