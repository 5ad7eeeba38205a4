"""Which step size each method of a study came furthest with, printed and written down."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from common import tables
from common.files import atomic
from experiments.config.compose import split
from experiments.config.run import LAUNCH
from experiments.orchestration.study import Cell, StudyFolder
from plots.runs.best import Choice, choose
from plots.runs.find import find, of_study, whole

_COLUMNS = ["task", "algorithm", "settings", "seeds", "lr", "value", "second", "second_value", "note", "rule", "run"]


def report(cells: Sequence[Cell], rule: str | None, flags: Sequence[str] = ()) -> None:
    """Print the best step sizes over all runs of the cells' study, whichever command began them, with the rules they
    follow and for each that is one of these cells' the command that runs it; and write them to selection.csv.

    flags: of the sweep's command line that the command needs too. Raises UsageError, see `best`.
    """
    results, study = Path(cells[0].run.results_dir), str(cells[0].run.study)
    choices = choose(whole(of_study(find(results), results, study)), rule)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for words in dict.fromkeys(filter(None, map(_rule, choices))):
        console.print(f"best: {words}")
    columns = ["task", "algorithm", "settings", "best lr", "value", "runner-up", "note"]
    rows = [
        [choice.task, choice.algorithm, choice.settings, _number(choice.lr), _number(choice.value),
         f"{_number(choice.second)} ({_number(choice.second_value)})" if choice.second else "–", choice.note]
        for choice in choices
    ]  # fmt: skip
    tables.show(console, columns, rows)
    begun = {cell.id: split(cell.overrides, [*LAUNCH, "lr", "seed"])[1] for cell in cells}
    for choice in choices:
        if choice.run in begun:
            command = ["python", "-m", "experiments.run", *flags, *begun[choice.run], f"lr={choice.lr!r}"]
            console.print(shlex.join(command))
    written = [
        {**vars(choice), "seeds": " ".join(map(str, choice.seeds)), "rule": _rule(choice)} for choice in choices
    ]
    with atomic(StudyFolder(str(results), study).path / "selection.csv") as file:
        pd.DataFrame(written, columns=_COLUMNS).to_csv(file, index=False)


def _rule(choice: Choice) -> str:
    return choice.rule.in_words(len(choice.seeds) > 1) if choice.rule else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
