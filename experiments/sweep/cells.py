"""The cells of a sweep or figure: its runs, each with what sets it apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from common.errors import RunError
from experiments.config import identity
from experiments.config.schema import Run
from experiments.record.folder import RunFolder
from plots.runs.choose import Choice, best
from plots.runs.read import open_run


@dataclass(frozen=True, eq=False)
class Cell:
    """One run: `name` is what sets it apart from the others, `overrides` what its configuration was composed from."""

    name: str
    overrides: tuple[str, ...]
    run: Run

    @cached_property
    def folder(self) -> RunFolder:
        """Where its results lie."""
        return RunFolder(identity.folder(self.run))

    def choice(self, rule: str | None) -> Choice:
        """Its best step size, once it is finished. Raises UsageError for a rule about what was not measured."""
        [choice] = best([open_run(self.folder.path)], rule)
        return choice

    def outcome(self, rule: str | None) -> str:
        """What a finished run came to with its best step size, in words."""
        said, chosen = self.folder.outcome(), self.choice(rule).lr
        which = self.run.lr.index(chosen) if chosen in self.run.lr else 0
        return said[which] + (f", best of {len(said)} step sizes" if len(said) > 1 else "")

    @property
    def id(self) -> str:
        """The run's id."""
        return self.folder.path.name

    @property
    def is_finished(self) -> bool:
        """Whether it is done. Where that cannot be told it is not, and its process will say why."""
        try:
            return self.folder.is_finished()
        except RunError:
            return False


def cells(lines: Sequence[Sequence[str]], runs: Sequence[Run], study: str) -> list[Cell]:
    """The cells with these overrides and runs, all shown under `study` unless they say otherwise."""
    shared = set.intersection(*map(set, lines))
    return [
        Cell(
            " ".join(text for text in line if text not in shared) or run.algorithm.name,
            tuple(line),
            replace(run, study=run.study or study),
        )
        for line, run in zip(lines, runs, strict=True)
    ]
