"""The rows of runs as one table, with best step sizes and bits to levels."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pandas as pd

from common.errors import UsageError
from common.names import explain_unknown
from plots.runs.best import Rule, metric_of, rank_step_sizes
from plots.runs.columns import AXES, higher_is_better, sign
from plots.runs.read import RunRecord, repeat_by_row
from plots.runs.seeds import geometric_mean
from plots.runs.variants import distinguish, facets, report_mixed_code, variant_rows


class Results(pd.DataFrame):
    """Rows of `metrics.jsonl` with the settings of their runs: a row for each evaluation and step size.

    `settings` names the columns in which runs differ besides task, algorithm and seed. `method` is an algorithm's
    name with the settings in which its own runs differ. A selection of rows is a Results again.
    """

    _metadata: ClassVar = ["settings"]  # a list, because pandas adds it to a list
    settings: Sequence[str] = ()

    @property
    def _constructor(self) -> type[Results]:
        return Results

    def best(self, metric: str = "") -> pd.DataFrame:
        """Return a row for each task and method: the best step size `lr`, by the rule of reports, and its results.

        `metric`: empty for each task's own. `value` decided the step size. `final` is the metric at the last
        evaluation: the mean over seeds, with the least and greatest in `final_low` and `final_high`. `edge`: no
        smaller, or no larger, step size was tried. `note`: a reason against it.
        Raises ValueError for a metric that no run has and for no rows, and UsageError for a metric without a better
        direction.
        """
        return self._add_settings(finals(self._by_method(), metric).drop(columns="label"))

    def bits_to(self, metric: str, levels: float | Sequence[float], x: str = "bits") -> pd.DataFrame:
        """Return the fewest bits until each method is first seen at or beyond each level, over all its step sizes.

        `x`: the column to count: bits of both directions, bits_up or bits_down of one, or another axis such as round.
        Columns are those of `bits_to_reach`. Raises as `best`.
        """
        if metric not in self:
            raise ValueError(f"{metric}: no run has this metric")
        if x not in self:
            raise UsageError(explain_unknown(f"x={x}: no such column", x, AXES))
        wanted = [levels] if isinstance(levels, int | float) else list(levels)
        return self._add_settings(bits_to_reach(self._by_method(), metric, wanted, x).drop(columns="label"))

    def _by_method(self) -> pd.DataFrame:
        """The rows with every variant of a method as an algorithm of its own, as the rules of reports need them."""
        if self.empty:
            raise ValueError("there are no rows")
        return pd.DataFrame(self).assign(algorithm=self["method"])

    def _add_settings(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Add columns with the settings of the methods."""
        names = ["task", "algorithm", *(name for name in self.settings if name in self)]
        known = pd.DataFrame(self)[["method", *names]].drop_duplicates(["task", "method"])
        rows = rows.rename(columns={"algorithm": "method"}).merge(known, on=["task", "method"], how="left")
        return rows[[*names, *(name for name in rows if name not in names)]]


def results(runs: Sequence[RunRecord]) -> Results:
    """Return the rows of runs. Of several with the same settings, seed and step size only the last is kept."""
    variants = distinguish(runs)
    report_mixed_code(variants)
    kept = [variant.run for variant in variants]
    frame = variant_rows(variants).drop(columns=["dash", "left_out"]).rename(columns={"algorithm": "method"})
    settings = facets(kept).map(_value, na_action="ignore").drop(columns=[*frame, "algorithm"], errors="ignore")
    about = repeat_by_row(kept, settings.assign(algorithm=[run.algorithm for run in kept])).loc[frame.index]
    first = ["task", "algorithm", "compressor", "seed"]
    rest = [name for name in frame if name not in (*first, "method")]
    whole = pd.concat([frame, about], axis=1)[[*first, *settings, *rest, "method"]]
    table = Results(whole.reset_index(drop=True))
    table.settings = [str(name) for name in settings]
    return table


def _value(text: str) -> Any:
    """Parse a word of a command line."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, list) else value


def finals(frame: pd.DataFrame, metric: str = "") -> pd.DataFrame:
    """Return a row for each task and algorithm in the rows of `table`: the best step size and its final metric.

    Columns are those of `Results.best`. The mean over seeds is geometric unless higher is better or a value is
    negative. A task that measures no metric has no row. Raises ValueError for a metric that no run has.
    """
    if metric and metric not in frame:
        raise ValueError(f"{metric}: no run has this metric")
    found = []
    for task, of_task in frame.groupby("task", sort=False):
        if not (own := metric or metric_of(of_task)):
            continue
        for algorithm, rows in of_task.groupby("algorithm", sort=False):
            ranks = rank_step_sizes(rows, Rule(own))
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
    """Return the fewest bits until each method is first seen at or beyond each level, over all its step sizes.

    `frame` has rows of `table`. Beyond means below, and above for accuracies. Columns are task, algorithm, label,
    level, bits, round, lr; the last three are missing if no step size got there. With several seeds, bits and round
    are means, with `bits_min` and `bits_max`, and only step sizes that got there with every seed count. A given `x`
    is counted instead of bits, and column names have `x` instead of bits.
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
    """Default levels to compare one task's methods: between the best start and the best value, the easiest first.

    At most five decades, or tenths for accuracies. If fewer than two of these fit, round numbers."""
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
