"""Which step size each method of a sweep came furthest with."""

from __future__ import annotations

import csv
import math
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console

from common import tables
from common.errors import UsageError
from common.files import atomic
from experiments.config.compose import key_of, unknown
from experiments.sweep.grid import Cell
from plots.runs.columns import higher_is_better

_TUNED = ("lr", "seed")
"""What is chosen, and what is averaged over: settings that are the same but for these compete."""

_COSTS = ("round", "epoch", "trial", "lr", "bits", "bits_up", "bits_down", "payload_bytes", "seconds")
"""Columns of a row that measure no model."""

_OWN_COLUMNS = ("task", "algorithm")
_COLUMNS = ("task", "algorithm", "seeds", "lr", "value", "second", "second_value", "note")


@dataclass(frozen=True)
class Choice:
    """The best step size of one task, method and whatever else differs; None where none came to its end."""

    task: str
    algorithm: str
    overrides: tuple[str, ...]  # without those of step size and seed
    seeds: str  # separated by spaces
    lr: float | None
    value: float | None
    second: float | None  # the runner-up, and how good it was
    second_value: float | None
    note: str

    @property
    def command(self) -> str:
        """What runs the method with this step size."""
        return shlex.join(["python", "-m", "experiments.run", *self.overrides, f"lr={self.lr!r}"])


def measured(cell: Cell, rule: str) -> dict[float, float]:
    """What a finished run came to with each of its step sizes.

    rule: final_<metric> or best_<metric>. Raises UsageError where the run has no such metric.
    """
    which, _, metric = rule.partition("_")
    trials = cell.run.summary()["trials"]
    if metric not in trials[0][which] or metric in _COSTS:
        known = [f"{kind}_{name}" for kind in ("best", "final") for name in trials[0][kind] if name not in _COSTS]
        raise UsageError(f"{cell.name}: {unknown('select', rule, known)}")
    return {lr: trial[which][metric] for lr, trial in zip(cell.config["lr"], trials, strict=True)}


def outcome(cell: Cell, rule: str | None) -> str:
    """What a finished run came to with its best step size, by the final training loss unless said, in words."""
    said = cell.run.outcome()
    if len(said) == 1:
        return said[0]
    rule = rule or "final_train_loss"
    try:
        values = list(measured(cell, rule).values())
    except UsageError:  # a task without a training loss
        return f"{said[0]}, the first of {len(said)} step sizes"
    best = (max if higher_is_better(rule) else min)(values)
    return f"{said[values.index(best)]}, best of {len(said)} step sizes"


def choose(cells: list[Cell], rule: str) -> list[Choice]:
    """The best step size by `measured` of every group of cells that differ in step size and seed alone.

    Of several seeds the geometric mean counts, of an accuracy the arithmetic one; a step size that did not come to
    its end with each of them is no candidate. Of equals the smallest is best.
    """
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        rest = tuple(override for override in cell.overrides if key_of(override) not in _TUNED)
        groups.setdefault(rest, []).append(cell)
    return [_best(overrides, group, rule) for overrides, group in groups.items()]


def report(choices: list[Choice], rule: str, file: Path, console: Console) -> None:
    """Print the choices with the commands that run them, and write them to a CSV file."""
    shared = set.intersection(*(set(choice.overrides) for choice in choices))
    columns = ["task", "algorithm", "settings", "best lr", rule, "runner-up", "note"]
    rows = [
        [choice.task, choice.algorithm, _settings(choice, shared), _number(choice.lr), _number(choice.value),
         f"{_number(choice.second)} ({_number(choice.second_value)})" if choice.second else "–", choice.note]
        for choice in choices
    ]  # fmt: skip
    tables.show(console, columns, rows)
    for choice in choices:
        if choice.lr is not None:
            console.print(choice.command, markup=False, highlight=False, soft_wrap=True)
    with atomic(file) as target, target.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*_COLUMNS, "overrides"])
        for choice in choices:
            writer.writerow([*(getattr(choice, name) for name in _COLUMNS), shlex.join(choice.overrides)])


def _best(overrides: tuple[str, ...], cells: list[Cell], rule: str) -> Choice:
    better = max if higher_is_better(rule) else min
    found: dict[float, dict[int, float]] = {lr: {} for cell in cells for lr in cell.config["lr"]}
    failed = []
    for cell in cells:
        seed, values = cell.config["seed"], measured(cell, rule) if cell.is_finished else {}
        for lr in cell.config["lr"]:
            if lr in values:
                found[lr][seed] = values[lr]
            else:
                failed.append(f"lr={lr:g} seed={seed}")
    seeds = sorted({cell.config["seed"] for cell in cells})
    mean = _mean(rule, [value for by_seed in found.values() for value in by_seed.values()])
    complete = {lr: mean(by_seed.values()) for lr, by_seed in found.items() if len(by_seed) == len(seeds)}
    ranked = sorted(complete, key=lambda lr: (complete[lr] if better is min else -complete[lr], lr))
    first, second = (*ranked, None, None)[:2]
    return Choice(
        cells[0].config["task"]["name"],
        cells[0].config["algorithm"]["name"],
        overrides,
        " ".join(map(str, seeds)),
        first,
        complete.get(first),
        second,
        complete.get(second),
        "; ".join(filter(None, [_edge(first, list(found)), f"not finished: {', '.join(failed)}" if failed else ""])),
    )


def _mean(rule: str, values: list[float]) -> Callable[[Iterable[float]], float]:
    """Over seeds: that of logarithms, unless the metric is an accuracy or negative somewhere."""
    if higher_is_better(rule) or min(values, default=0) < 0:
        return fmean
    return lambda some: math.exp(fmean(math.log(max(value, sys.float_info.min)) for value in some))


def _edge(best: float | None, tried: list[float]) -> str:
    if best is None:
        return "no step size came to its end with every seed"
    if len(tried) == 1:
        return "the only one tried"
    edges = {min(tried): "smaller", max(tried): "larger"}
    return f"at the edge of the grid: try {edges[best]}" if best in edges else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _settings(choice: Choice, shared: set[str]) -> str:
    """What else sets it apart."""
    return " ".join(text for text in choice.overrides if text not in shared and key_of(text) not in _OWN_COLUMNS)
