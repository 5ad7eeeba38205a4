"""The cells of a sweep or figure: its runs, each with what sets it apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from common.errors import RunError
from experiments.config import identity
from experiments.config.schema import Run
from experiments.record.folder import RunFolder


@dataclass(frozen=True)
class Cell:
    """One run: `name` is what sets it apart from the others, `overrides` what its configuration was composed from."""

    name: str
    overrides: tuple[str, ...]
    run: Run

    @cached_property
    def folder(self) -> RunFolder:
        """Where its results lie."""
        return RunFolder(identity.folder(self.run))

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
