"""The ranking table of a track: a row for each level, task and entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from plots.claims.check import short_exponent
from plots.leaderboard import statistics
from plots.runs.best import level as level_at_end
from plots.runs.columns import higher_is_better, sign
from plots.runs.network import Network, seconds
from plots.runs.seeds import geometric_mean

ALL = "all"
"""The name for all tasks of a track together."""

NETWORKS = {
    f"seconds_{name}_{workers}": Network(bandwidth=bandwidth, workers=workers, computing=0.0)
    for name, bandwidth in (("100M", 100.0), ("1G", 1e3), ("10G", 1e4))
    for workers in (8, 64)
}
"""Networks by column. They model communication alone, because entries come from different machines.

All messages use a sharded server. It moves as many bits as a ring if the vector has a piece for every worker.
"""

ENDS = ("", "_low", "_high")

COSTS = ["bits_up", "bits_down", "round", "gradient_calls", *NETWORKS]

Goals = Mapping[str, tuple[str, Sequence[float]]]
"""The metric and levels of every task, the easiest level first."""

Levels = Sequence[tuple[dict[str, float], dict[str, pd.DataFrame]]]
"""For each level: its values by task, and the needs of runs by task, see `statistics.needs`."""


def rank(frame: pd.DataFrame, goals: Goals, levels: Levels, seeds: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rank a track's entries. Returns the ranking and the comparisons of all pairs of entries.

    `frame` has the judged rows of all entries in the columns of `plots.runs.read.table`; `algorithm` is the entry's
    name. It also has each entry's label, family, memory and note. `levels` come from `needs_by_level`.
    `seeds` is the track's number of seeds. An entry needs that many runs of every task for a rank and savings.

    Columns of the ranking:
    - `level` counts from 1. `rank` is only in rows for all tasks together.
    - `bits` is the geometric mean over tasks and seeds, `bits_low` and `bits_high` its 95 % interval. If `reached` is
      less than `runs`, `bits` is a lower bound, and the rank, other costs and savings are missing.
    - `times_32` and `times_16` are the savings over the best entry that sends 32- or 16-bit floats.
    - `end` is the final metric and `spent` all bits of a run; `front` marks entries that no other beats in both. Only
      rows for one task have them.
    """
    about = frame.groupby("algorithm")[["label", "family", "memory", "note"]].first()
    facts = statistics.messages(frame).join(about, how="right")  # an entry may have sent nothing
    ends = [_ends(rows, str(task), goals[str(task)][0]) for task, rows in frame.groupby("task", sort=False)]
    parts, pairs = [], []
    for level, (targets, needs) in enumerate(levels, start=1):
        together = pd.concat(needs.values())
        compared = statistics.compare(together)
        for task, runs in {ALL: together, **needs}.items():
            rows = _costs(runs, facts, seeds).assign(level=level, task=task, target=targets.get(task))
            rows["missed"] = seeds * (len(needs) if task == ALL else 1) - rows["reached"]
            names = rows.index[rows["missed"] == 0]
            rows["rank"] = statistics.ranks(compared, names if task == ALL else [])
            parts.append(rows.sort_values(["rank", "missed", "bits"], kind="stable"))
        pairs.append(compared.assign(level=level))
    ranking = (
        pd.concat(parts).rename_axis("entry").reset_index().merge(pd.concat(ends), how="left", on=["task", "entry"])
    )
    first = ["level", "task", "rank", "entry", "label", "bits", "bits_low", "bits_high", "reached", "runs"]
    return ranking[[*first, *ranking.columns.difference(first, sort=False)]], pd.concat(pairs, ignore_index=True)


def needs_by_level(frame: pd.DataFrame, goals: Goals) -> Levels:
    """The levels of all tasks with rows. Raises ValueError if one is reached before anything is sent."""
    rows, result = {str(task): own for task, own in frame.groupby("task")}, []
    for place in range(max(len(levels) for task, (_, levels) in goals.items() if task in rows)):
        targets = {task: levels[place] for task, (_, levels) in goals.items() if task in rows and place < len(levels)}
        needs = {task: statistics.needs(rows[task], goals[task][0], target) for task, target in targets.items()}
        result.append((targets, needs))
    return result


def _costs(needs: pd.DataFrame, facts: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """A row for each entry: its costs of reaching one level of these tasks."""
    needs = needs.assign(**{name: seconds(needs, network, "sharded") for name, network in NETWORKS.items()})
    (bits, is_bound), found = statistics.average_tasks(needs), {}
    complete = bits.columns[(bits.count() == seeds) & ~is_bound.any()]
    totals = stats.gmean(bits[complete])
    for name, mine in needs.groupby("algorithm"):
        measured = {"bits": statistics.geometric_interval(bits[name].to_numpy(), bool(is_bound[name].any()))}
        for width in (32, 16):
            rivals = pd.Series(totals, complete)[facts.loc[complete, "width"] == width]
            is_known = len(rivals) > 0 and name in complete
            saved = bits[rivals.idxmin()] / bits[name] if is_known else pd.Series([np.nan])
            measured[f"times_{width}"] = statistics.geometric_interval(saved.to_numpy())
        ends = {
            f"{cost}{end}": value
            for cost, values in measured.items()
            for end, value in zip(ENDS, values, strict=True)
        }
        spent = mine.loc[mine.index.isin(bits[name].dropna().index, level="seed"), COSTS].to_numpy(float)
        means = stats.gmean(spent) if len(spent) else [np.nan] * len(COSTS)
        costs = dict(zip(COSTS, means, strict=True))
        found[name] = {**ends, **costs, "reached": mine["bits"].notna().sum(), "runs": len(mine)}
    return pd.DataFrame.from_dict(found, orient="index").join(facts)


def _ends(frame: pd.DataFrame, task: str, metric: str) -> pd.DataFrame:
    """Each entry's final metric on one task, a mean over seeds and the last tenth of the rounds, and its bits."""
    found, mean = [], np.mean if higher_is_better(metric) else geometric_mean
    for entry, rows in frame.groupby("algorithm"):
        curves = [curve for _, curve in rows.groupby("seed")]
        diverged = any(curve["round"].max() < curve["planned_rounds"].max() for curve in curves)
        ends = [level_at_end(curve, metric, geometric=not higher_is_better(metric)) for curve in curves]
        end = np.nan if diverged else float(mean(np.array(ends)))
        spent = np.mean([curve["bits"].max() for curve in curves])
        found.append({"task": task, "entry": entry, "metric": metric, "end": end, "spent": spent})
    rows = pd.DataFrame(found)
    return rows.assign(front=statistics.on_front(rows["spent"].to_numpy(), sign(metric) * rows["end"].to_numpy()))


def in_words(ranking: pd.DataFrame) -> pd.DataFrame:
    """The main columns as text, for printed tables. An asterisk marks entries with a note."""

    def number(values: pd.Series) -> pd.Series:
        return values.map(lambda value: "–" if pd.isna(value) else short_exponent(f"{value:.3g}"))

    bits, low, high = (number(ranking[name]) for name in ("bits", "bits_low", "bits_high"))
    is_there = ranking["reached"] == ranking["runs"]
    spread = (bits + " [" + low + ", " + high + "]").where((low != "–") & (low != high), bits)
    rank = number(ranking["rank"])
    times = {f"× {name}": number(ranking[f"times_{floats}"]) for name, floats in (("float32", 32), ("bf16", 16))}
    seconds = {name.replace("seconds_", "s ").replace("_", " × "): number(ranking[name]) for name in NETWORKS}
    label = ranking["label"].where(ranking["note"] == "", ranking["label"] + " *")
    found = {"rank": rank, "entry": label, "bits": spread.where(is_there, "> " + bits)}
    reached = ranking["reached"].astype(str) + "/" + ranking["runs"].astype(str)
    found |= {"reached": reached, "rounds": number(ranking["round"]), "gradients": number(ranking["gradient_calls"])}
    return pd.DataFrame({**found, **times, **seconds})
