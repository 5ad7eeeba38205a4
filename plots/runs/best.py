"""The rule for a method's best step size, shared by figures, pictures, pages and sweeps."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import pandas as pd

from common.errors import UsageError
from common.names import explain_unknown
from plots.runs.columns import column, default_metric, higher_is_better, in_words, sign
from plots.runs.read import RunRecord
from plots.runs.seeds import has_several_seeds
from plots.runs.variants import Variant, distinguish, group_by, variant_rows

SELECTABLE = ("final", "best")
"""Prefixes of a metric in `select=`: final_<metric>, best_<metric>."""

CHOICE = ["task", "algorithm", "settings", "seeds", "lr", "value", "second", "second_value", "note", "rule", "run"]
"""Columns of `choose_step_sizes`."""

Columns = pd.DataFrame | Mapping[str, np.ndarray]
"""Columns of curves by name."""

_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Rule:
    """A metric, and a curve's value that decides: its `level` at the end, its `final` value or its `best` one."""

    metric: str
    kind: str = "level"  # or one of SELECTABLE

    def in_words(self, seeds: bool = False, negative: bool = False) -> str:
        """Describe the winner. `seeds`: there are several. `negative`: the metric has negative values."""
        higher = higher_is_better(self.metric)
        mean, way = ("mean" if higher else "geometric mean"), ("highest" if higher else "lowest")
        if negative and not higher:
            mean += " (arithmetic for negative values)"
        name = in_words(self.metric)
        if self.kind == "level":
            means = " and over seeds" if seeds else ""
            return f"the step size with the {way} {mean} of the {name} over the last tenth of the rounds{means}"
        of = f"{name} at the last evaluation" if self.kind == "final" else f"{name} of all evaluations"
        return f"the step size with the {way} {of}" + (f", its {mean} over seeds" if seeds else "")


def metric_of(frame: pd.DataFrame) -> str | None:
    """The metric that selects one task's step sizes by default, see `default_metric`."""
    declared = frame["selected_by"].unique() if "selected_by" in frame else ()
    numbers = frame.select_dtypes("number")
    return default_metric([str(name) for name in numbers if numbers[name].notna().any()], *declared)


def rule_in_words(frame: pd.DataFrame, metric: str = "") -> str:
    """Describe the rule of `mark_best`. If tasks have different rules, join them by "or"."""
    seeds, rules = has_several_seeds(frame), []
    for _, rows in frame.groupby("task", sort=False):
        chosen = metric or metric_of(rows)
        given = "the step sizes it was given, none of them selected"
        rules.append(Rule(chosen).in_words(seeds, bool((rows[chosen] < 0).any())) if chosen else given)
    return " or ".join(sorted(set(rules)))


def mark_best(frame: pd.DataFrame, metric: str = "", held_out: int | None = None) -> pd.DataFrame:
    """Add a column `best`: whether the row has its task's and method's best step size.

    `metric`: empty for each task's own. `held_out`: the seed that chooses the best; None for all seeds. If no step
    size of a method can win, the first of `rank_step_sizes` is marked. If a task measures no metric, a step size is
    marked only if it is the method's only one.
    Raises ValueError for a metric that no run has.
    """
    if metric and metric not in frame:
        raise ValueError(f"select: {metric}: no run has this metric")
    best = {}
    tried = frame if held_out is None else frame[frame["seed"] == held_out]
    for task, of_task in tried.groupby("task", sort=False):
        own = metric or metric_of(of_task)
        several = of_task.groupby("algorithm")["lr"].transform("nunique") > 1
        best |= {(task, row.algorithm): row.lr for row in of_task[~several].drop_duplicates("algorithm").itertuples()}
        for algorithm, rows in of_task[several].groupby("algorithm", sort=False):
            if own:
                best[task, algorithm] = rank_step_sizes(rows, Rule(own)).index[0]
    keys = (frame[name].to_numpy(object) for name in ("task", "algorithm"))  # iterating over a column is slower
    of_rows = [best.get(key, math.nan) for key in zip(*keys, strict=True)]
    return frame.assign(best=frame["lr"].to_numpy() == np.array(of_rows))


def find_edges(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Find the tasks and methods where the `best` step size is the least or greatest of several tried."""
    edges = []
    for key, rows in frame.groupby(["task", "algorithm"], sort=False):
        tried, best = rows["lr"], rows.loc[rows["best"], "lr"]
        if tried.nunique() > 1 and best.isin([tried.min(), tried.max()]).any():
            edges.append(key)
    return edges


def rank_step_sizes(rows: pd.DataFrame, rule: Rule, seeds: Iterable[int] | None = None) -> pd.DataFrame:
    """Rank the step sizes of one method on one task, best first: index lr, columns `value` and `why_not`.

    Means over rounds and seeds are geometric, so that the last point of a curve that oscillates over decades does not
    decide. They are arithmetic for accuracies and for metrics with negative values. A step size cannot win if it
    ended early, lacks one of `seeds` (default: all in the rows), or ends with a loss above its start. `why_not` gives
    this reason, and is empty for the others. Of equal step sizes the smallest is first.
    """
    seeds = set(rows["seed"].unique() if seeds is None else seeds)
    higher = higher_is_better(rule.metric)
    geometric = not higher and not (rows[rule.metric] < 0).any()
    last_round, ranks = rows["round"].max(), []
    needed = [name for name in dict.fromkeys(("lr", "seed", "round", "train_loss", rule.metric)) if name in rows]
    order = np.lexsort([rows[name] for name in ("round", "seed", "lr")])
    columns = {name: rows[name].to_numpy()[order] for name in needed}
    ends = np.flatnonzero((np.diff(columns["lr"]) != 0) | (np.diff(columns["seed"]) != 0)) + 1
    trials: dict[float, dict[int, Columns]] = {}
    for begin, end in pairwise([0, *ends.tolist(), len(order)]):
        trial = {name: values[begin:end] for name, values in columns.items()}
        trials.setdefault(trial["lr"][0], {})[trial["seed"][0]] = trial
    for lr, of_lr in trials.items():
        value = _mean(np.array([_value(trial, rule, geometric) for trial in of_lr.values()]), geometric)
        done = of_lr.keys() == seeds and all(trial["round"][-1] == last_round for trial in of_lr.values())
        why_not = "" if done and math.isfinite(value) else "not finished"
        if not why_not and any(ends_above_its_start(trial, rule.metric) for trial in of_lr.values()):
            why_not = "ends above its start"
        place = ["", "ends above its start", "not finished"].index(why_not)
        ranks.append((place, sign(rule.metric) * value if place < 2 else 0.0, lr, value, why_not))
    *_, lrs, values, why_not = zip(*sorted(ranks), strict=True)
    return pd.DataFrame({"value": values, "why_not": why_not}, index=pd.Index(lrs, name="lr"))


def level(
    columns: Columns, metric: str = "grad_norm", begin: float = 0.9, end: float = 1.0, geometric: bool = True
) -> float:
    """Mean of a metric over the rounds in (begin, end], as shares of the last round.

    NaN without such rounds, and for a geometric mean of negative values."""
    rounds = np.asarray(columns["round"]) / max(columns["round"].max(), 1)
    return _mean(_floats(columns, metric)[(rounds > begin) & (rounds <= end)], geometric)


def ends_above_its_start(trial: Columns, metric: str) -> bool:
    """Whether the training loss (the metric if there is none) is worse at the end than in round 0."""
    has_loss = "train_loss" in trial and not np.isnan(_floats(trial, "train_loss")).all()
    name = "train_loss" if has_loss else metric
    badness = sign(name) * _floats(trial, name)
    return bool((badness[-1] > badness[np.asarray(trial["round"]) == 0]).any())


def _value(trial: Columns, rule: Rule, geometric: bool) -> float:
    if rule.kind == "level":
        return level(trial, rule.metric, geometric=geometric)
    badness = sign(rule.metric) * _floats(trial, rule.metric)
    return sign(rule.metric) * float(badness[-1] if rule.kind == "final" else np.fmin.reduce(badness))


def _floats(columns: Columns, name: str) -> np.ndarray:
    return np.asarray(columns[name], dtype=float)


def _mean(values: np.ndarray, geometric: bool) -> float:
    if not len(values) or (geometric and (values < 0).any()):
        return math.nan
    return float(np.exp(np.log(np.maximum(values, _TINY)).mean()) if geometric else values.mean())


def choose_step_sizes(runs: Iterable[RunRecord], rule: str | None = None) -> pd.DataFrame:
    """Choose step sizes by `rank_step_sizes`: a row for each task, algorithm and settings, with columns CHOICE.

    `lr` and its `value` are missing if no step size can win. `second` is the runner-up, and `run` the id of a run
    with the best step size. A step size that some seed did not finish is no candidate.
    rule: final_<metric> or best_<metric>; None for the level of the task's own metric. Column `rule` has the words.
    Raises UsageError for a metric that no finished run has.
    """
    variants = distinguish(run for run in runs if run.config)
    curves = group_by(variants, lambda variant: (variant.run.task, variant.run.algorithm, variant.settings))
    return pd.DataFrame([(*curve, *_choice(parts, rule)) for curve, parts in curves.items()], columns=CHOICE)


def _choice(parts: list[Variant], rule: str | None) -> tuple:
    """The values of CHOICE for one curve, from `seeds` on."""
    seeds = sorted({part.run.seed for part in parts})
    tried = sorted({lr for part in parts for lr in part.lrs})
    finished = [part for part in parts if part.run.is_finished]
    there = {(lr, part.run.seed) for part in finished for lr in part.lrs}
    words, ranks = "", pd.DataFrame(columns=["value", "why_not"])
    if finished:
        frame = variant_rows(finished)
        chosen = _rule(finished, frame, rule, f"{parts[0].run.task} {parts[0].run.algorithm}")
        words = chosen.in_words(len(seeds) > 1, bool((frame[chosen.metric] < 0).any()))
        ranks = rank_step_sizes(frame, chosen, seeds)
    above = [f"lr={lr:g}" for lr in ranks.index[ranks["why_not"] == "ends above its start"]]
    failed = [f"lr={lr:g} seed={seed}" for lr, seed in product(tried, seeds) if (lr, seed) not in there]
    first, second, *_ = [*ranks.loc[ranks["why_not"] == "", "value"].items(), *[(math.nan, math.nan)] * 2]
    edges = {tried[0]: "at the edge of the grid: try smaller", tried[-1]: "at the edge of the grid: try larger"}
    only = "the only one tried" if len(tried) == 1 else edges.get(first[0], "")
    notes = [
        "no step size can win" if math.isnan(first[0]) else only,
        f"loss ends above its start: {', '.join(above)}" if above else "",
        f"not finished: {', '.join(failed)}" if failed else "",
    ]
    run = next((part.run.id for part in finished if first[0] in part.lrs), "")
    return " ".join(map(str, seeds)), *first, *second, "; ".join(filter(None, notes)), words, run


def _rule(finished: list[Variant], frame: pd.DataFrame, text: str | None, who: str) -> Rule:
    """Parse the rule in `select=`; None for the task's own. Raises UsageError for a metric that no run has."""
    if text is None:
        metric = metric_of(frame)
        if metric is None:
            raise UsageError(f"{who}: no loss and no gradient norm to select by; set select=final_<metric>")
        return Rule(metric)
    columns = dict.fromkeys(name for part in finished for name in part.run.rows)
    metrics = [name for name in columns if column(name).is_measured]
    rules = {f"{kind}_{name}": Rule(name, kind) for kind in SELECTABLE for name in metrics}
    if text not in rules:
        raise UsageError(f"{who}: {explain_unknown(f'select={text}: no such choice', text, rules)}")
    return rules[text]
