"""The best step sizes of runs, with what speaks against them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import pandas as pd

from common.errors import UsageError
from common.names import unknown
from plots.runs.best import SELECTABLE, Rule, metric_of, ranked
from plots.runs.columns import column
from plots.runs.read import RunRecord
from plots.runs.variants import Variant, distinguish, grouped, variant_rows


@dataclass(frozen=True)
class Choice:
    """The best step size of one method on one task with the same settings; None where none can win."""

    task: str
    algorithm: str
    settings: str  # in which the method's runs differ
    seeds: tuple[int, ...]
    rule: Rule | None  # None where no run is finished
    lr: float | None
    value: float | None
    second: float | None  # the runner-up, and how good it was
    second_value: float | None
    note: str
    run: str | None  # the id of one that has the best step size


def best(runs: Iterable[RunRecord], rule: str | None = None) -> list[Choice]:
    """The best step size by `ranked` of every task, method and settings among these runs, finished or not.

    `rule` is final_<metric> or best_<metric>, and None the level of the task's own metric. A step size that did not
    come to its end with every seed, or whose loss ends above its start, is no candidate.
    Raises UsageError for a metric that no finished run has.
    """
    variants = distinguish(run for run in runs if run.config)
    curves = grouped(variants, lambda variant: (variant.run.task, variant.run.algorithm, variant.settings))
    return [_choice(parts, rule) for parts in curves.values()]


def _choice(parts: list[Variant], rule: str | None) -> Choice:
    task, algorithm, settings = parts[0].run.task, parts[0].run.algorithm, parts[0].settings
    seeds = tuple(sorted({part.run.seed for part in parts}))
    tried = sorted({lr for part in parts for lr in part.lrs})
    finished = [part for part in parts if part.run.is_finished]
    there = {(lr, part.run.seed) for part in finished for lr in part.lrs}
    chosen, ranks = None, pd.DataFrame(columns=["value", "why_not"])
    if finished:
        frame = variant_rows(finished)
        chosen = _rule(finished, frame, rule, f"{task} {algorithm}")
        ranks = ranked(frame, chosen, seeds)
    above = [f"lr={lr:g}" for lr in ranks.index[ranks["why_not"] == "ends above its start"]]
    failed = [f"lr={lr:g} seed={seed}" for lr, seed in product(tried, seeds) if (lr, seed) not in there]
    winners = ranks.loc[ranks["why_not"] == "", "value"]
    (lr, second, *_), (value, second_value, *_) = ([*some, None, None] for some in (winners.index, winners))
    notes = [
        _edge(lr, tried),
        f"loss ends above its start: {', '.join(above)}" if above else "",
        f"not finished: {', '.join(failed)}" if failed else "",
    ]
    run = next((part.run.id for part in finished if lr in part.lrs), None)
    note = "; ".join(filter(None, notes))
    return Choice(task, algorithm, settings, seeds, chosen, lr, value, second, second_value, note, run)


def _rule(finished: list[Variant], frame: pd.DataFrame, text: str | None, who: str) -> Rule:
    """What `select=` asks for, or the task's own. Raises UsageError for a metric that these runs do not have."""
    if text is None:
        metric = metric_of(frame)
        if metric is None:
            raise UsageError(f"{who}: no loss and no gradient norm to select by; set select=final_<metric>")
        return Rule(metric)
    columns = dict.fromkeys(name for part in finished for name in part.run.columns)
    metrics = [name for name in columns if column(name).is_measured]
    rules = {f"{of}_{name}": Rule(name, of) for of in SELECTABLE for name in metrics}
    if text not in rules:
        raise UsageError(f"{who}: {unknown(f'select={text}: no such choice', text, rules)}")
    return rules[text]


def _edge(first: float | None, tried: list[float]) -> str:
    if first is None:
        return "no step size can win"
    if len(tried) == 1:
        return "the only one tried"
    edges = {tried[0]: "smaller", tried[-1]: "larger"}
    return f"at the edge of the grid: try {edges[first]}" if first in edges else ""
