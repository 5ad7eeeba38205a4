"""Which step size each method of a sweep came furthest with, printed and written down."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from common import tables
from common.files import atomic
from plots.runs.choose import Choice, best
from plots.runs.find import find, of_study

_COLUMNS = ("task", "algorithm", "settings", "seeds", "lr", "value", "second", "second_value", "note", "rule", "run")


def select(results_dir: Path, study: str, rule: str | None = None) -> list[Choice]:
    """The best step sizes of all runs of a study, whichever command began them. Raises UsageError, see `best`."""
    return best(of_study(find(results_dir), results_dir, study), rule)


def report(
    choices: Sequence[Choice], file: Path, console: Console, overrides: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print the choices with the rules they follow, and write them to a CSV file.

    overrides: by id those of the runs of which they are known; of these the command is printed that runs the method
    with its best step size.
    """
    for words in dict.fromkeys(_words(choice) for choice in choices if choice.rule):
        console.print(f"best: {words}", markup=False, highlight=False, soft_wrap=True)
    columns = ["task", "algorithm", "settings", "best lr", "value", "runner-up", "note"]
    rows = [
        [choice.task, choice.algorithm, choice.settings, _number(choice.lr), _number(choice.value),
         f"{_number(choice.second)} ({_number(choice.second_value)})" if choice.second else "–", choice.note]
        for choice in choices
    ]  # fmt: skip
    tables.show(console, columns, rows)
    for choice in choices:
        known = (overrides or {}).get(choice.run or "")
        if known is not None:
            kept = [text for text in known if text.partition("=")[0] not in ("lr", "seed")]
            command = shlex.join(["python", "-m", "experiments.run", *kept, f"lr={choice.lr!r}"])
            console.print(command, markup=False, highlight=False, soft_wrap=True)
    with atomic(file) as target, target.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for choice in choices:
            cells = {**vars(choice), "seeds": " ".join(map(str, choice.seeds)), "rule": _words(choice)}
            writer.writerow([cells[name] for name in _COLUMNS])


def _words(choice: Choice) -> str:
    return choice.rule.in_words(len(choice.seeds) > 1) if choice.rule else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
