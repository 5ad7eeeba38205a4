"""The rows of runs as one table, and what they come to."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pandas as pd

from common.errors import UsageError
from common.names import explain_unknown
from plots.runs.best import Rule, metric_of, ranked
from plots.runs.columns import AXES, higher_is_better, sign
from plots.runs.read import RunRecord, beside
from plots.runs.seeds import geometric_mean
from plots.runs.variants import distinguish, facets, variant_rows


class Results(pd.DataFrame):
    """Rows of `metrics.jsonl`, each with what its run was set to: a row an evaluation and step size.

    `settings` names the columns in which runs differ beside task, algorithm and seed; `method` has an algorithm's
    name with those in which its own runs differ. Rows that are selected of it are Results again.
    """

    _metadata: ClassVar = ["settings"]  # a list, because pandas adds it to a list
    settings: Sequence[str] = ()

    @property
    def _constructor(self) -> type[Results]:
        return Results

    def best(self, metric: str = "") -> pd.DataFrame:
        """A row a task and method: its best step size `lr`, by the rule of reports, and what it came to.

        `metric` is each task's own unless it is given. `value` is what the step size was chosen by; `final` the
        metric at the last evaluation, over several seeds its mean with `final_low` and `final_high`, the least and
        the greatest. `edge`: no smaller, or no larger, step size was tried. `note` is what speaks against it.
        Raises ValueError for a metric that no run has, and where there are no rows, and UsageError for a metric
        without a better direction.
        """
        return self._told(finals(self._by_method(), metric).drop(columns="label"))

    def bits_to(self, metric: str, levels: float | Sequence[float], x: str = "bits") -> pd.DataFrame:
        """The fewest bits after which each method was seen at or beyond each level, over all its step sizes.

        `x` is what is counted: bits of both directions, bits_up or bits_down of one, or another axis such as round.
        Columns as `bits_to_reach` has them. Raises as `best`.
        """
        if metric not in self:
            raise ValueError(f"{metric}: no run has this metric")
        if x not in self:
            raise UsageError(explain_unknown(f"x={x}: no such column", x, AXES))
        wanted = [levels] if isinstance(levels, int | float) else list(levels)
        return self._told(bits_to_reach(self._by_method(), metric, wanted, x).drop(columns="label"))

    def _by_method(self) -> pd.DataFrame:
        """The rows with every variant of a method an algorithm of its own, as the rules of reports take them."""
        if self.empty:
            raise ValueError("there are no rows")
        return pd.DataFrame(self).assign(algorithm=self["method"])

    def _told(self, found: pd.DataFrame) -> pd.DataFrame:
        """What was found of methods, with what these are set to in columns beside."""
        names = ["task", "algorithm", *(name for name in self.settings if name in self)]
        known = pd.DataFrame(self)[["method", *names]].drop_duplicates(["task", "method"])
        found = found.rename(columns={"algorithm": "method"}).merge(known, on=["task", "method"], how="left")
        return found[[*names, *(name for name in found if name not in names)]]


def results(runs: Sequence[RunRecord]) -> Results:
    """The rows of runs. Of several with the same settings, seed and step size the last one stands."""
    variants = distinguish(runs)
    kept = [variant.run for variant in variants]
    frame = variant_rows(variants).drop(columns="dash").rename(columns={"algorithm": "method"})
    settings = facets(kept).map(_value, na_action="ignore").drop(columns=[*frame, "algorithm"], errors="ignore")
    about = beside(kept, settings.assign(algorithm=[run.algorithm for run in kept])).loc[frame.index]
    first = ["task", "algorithm", "compressor", "seed"]
    rest = [name for name in frame if name not in (*first, "method")]
    whole = pd.concat([frame, about], axis=1)[[*first, *settings, *rest, "method"]]
    found = Results(whole.reset_index(drop=True))
    found.settings = [str(name) for name in settings]
    return found


def _value(text: str) -> Any:
    """The value of a word on a command line."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, list) else value


def finals(frame: pd.DataFrame, metric: str = "") -> pd.DataFrame:
    """A row a task and algorithm of `table`'s rows: its best step size, how that was chosen, and where it ended.

    Columns as of `Results.best`. The mean over seeds is geometric unless the metric is one of which more is better,
    or is negative somewhere; a task that measures no metric has no value. Raises ValueError for a metric that no run
    has.
    """
    if metric and metric not in frame:
        raise ValueError(f"{metric}: no run has this metric")
    found = []
    for task, of_task in frame.groupby("task", sort=False):
        if not (own := metric or metric_of(of_task)):
            continue
        for algorithm, rows in of_task.groupby("algorithm", sort=False):
            ranks = ranked(rows, Rule(own))
            lr, best = ranks.index[0], rows[rows["lr"] == ranks.index[0]]
            ends = best[best["round"] == best["round"].max()][own].to_numpy(dtype=float)
            geometric = not higher_is_better(own) and bool((ends >= 0).all())
            found.append({
                "task": task, "algorithm": algorithm, "label": rows["label"].iloc[0], "seeds": best["seed"].nunique(),
                "lr": lr, "edge": len(ranks) > 1 and lr in (ranks.index.min(), ranks.index.max()), "metric": own,
                "value": ranks["value"].iloc[0],
                "final": float(geometric_mean(ends) if geometric else ends.mean()), "final_low": ends.min(),
                "final_high": ends.max(), "note": ranks["why_not"].iloc[0],
            })  # fmt: skip
    if not found:
        raise ValueError("no task measures a loss or gradient norm to select step sizes by")
    return pd.DataFrame(found)


def bits_to_reach(frame: pd.DataFrame, metric: str, levels: Sequence[float], x: str = "bits") -> pd.DataFrame:
    """The fewest bits after which each method was seen at or beyond each level, over all its step sizes.

    `frame` has the rows of `RunRecord.frame`. Beyond is below, of accuracies above. Returns columns task, algorithm,
    label, level, bits, round, lr; the last three are missing where no step size got there. With several seeds bits
    and round are means, `bits_min` and `bits_max` stand beside them, and only step sizes with which every seed got
    there count. `x` is counted instead of bits where it is given, and has its name in the columns.
    """
    curve, ends, firsts = ["task", "algorithm"], [f"{x}_min", f"{x}_max"], []
    trials = [*curve, "lr", "seed"]
    rows = frame[[*dict.fromkeys((*trials, x, "round", metric))]].assign(trial=frame.groupby(trials).ngroup())
    each = frame[~rows["trial"].duplicated()].groupby(curve, sort=False)
    methods = each.agg(label=("label", "first"), seeds=("seed", "nunique")).reset_index()
    rows = rows.sort_values(x, kind="stable", ignore_index=True)
    for level in levels:
        there = rows.loc[sign(metric) * rows[metric] <= sign(metric) * level, "trial"].drop_duplicates()
        firsts.append(rows.loc[there.index].assign(level=level))
    first = pd.concat(firsts).groupby([*curve, "level", "lr"])
    costs = first[[*dict.fromkeys((x, "round"))]].mean().assign(got=first["seed"].nunique())
    costs[ends] = first[x].agg(["min", "max"])
    wanted = pd.DataFrame({"level": levels}).merge(methods, how="cross")
    complete = wanted.merge(costs.reset_index(), on=[*curve, "level"]).query("got == seeds").sort_values([x, "lr"])
    best = complete.drop(columns=["label", "seeds", "got"]).drop_duplicates([*curve, "level"])
    found = wanted.merge(best, on=[*curve, "level"], how="left")
    found[ends] = found[ends].where(found["seeds"] > 1)
    spread = ends if found["seeds"].max() > 1 else []
    return found[[*curve, "label", "level", *dict.fromkeys((x, "round")), "lr", *spread]]


def usual_levels(frame: pd.DataFrame, metric: str) -> list[float]:
    """Levels to compare one task's methods at where none are asked for: those that lie between the best start and the
    best value of all curves, from the easiest on. Decades, five at most; of accuracies tenths; where fewer than two
    of these lie there, round numbers."""
    values = frame.loc[frame[metric] > 0, ["round", metric]]
    starts = values.loc[values["round"] == values["round"].min(), metric]
    if starts.empty:
        return []
    higher = sign(metric) < 0
    low, high = (starts.max(), values[metric].max()) if higher else (values[metric].min(), starts.min())
    powers = range(math.floor(math.log10(high)), math.ceil(math.log10(low)) - 1, -1)
    tenths = [count / 10 for count in range(1, 10) if low < count / 10 <= high]
    levels = tenths if higher else [float(f"1e{power}") for power in powers if float(f"1e{power}") < high][:5]
    if len(levels) < 2 and high > low:
        from matplotlib.ticker import MaxNLocator  # which takes a while to import

        ticks = [float(f"{tick:.12g}") for tick in MaxNLocator(5).tick_values(low, high) if low < tick <= high]
        levels = ticks if higher else ticks[::-1]
    return levels
