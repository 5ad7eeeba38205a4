"""The rules that compare entries.

A run's need is its spending until its metric first reached a level. It is missing if the run never reached the level
or diverged. docs/leaderboard.md explains the rules.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from plots.claims.check import NOT_DECIDABLE
from plots.runs.network import first_rows_at

CURVE = ["task", "algorithm", "seed"]

ALPHA = 0.01
"""One entry is ahead of another if their p, corrected for the number of pairs, is smaller."""

AHEAD, TIE = "ahead", "tie"


def needs(frame: pd.DataFrame, metric: str, level: float) -> pd.DataFrame:
    """The row of each curve's first evaluation at or beyond a level, indexed by task, algorithm and seed.

    It has the columns of `frame`, missing if the curve ended early or never reached the level. Two columns are new:
    `spent` has all bits of the run, and `digest` a hash of the metric's values. A missing `gradient_calls` means one
    gradient per worker and round.
    Raises ValueError for a level that is reached before anything is sent.
    """
    frame = frame.sort_values("round", kind="stable").reset_index(drop=True)
    calls = frame["gradient_calls"].fillna(frame["round"]) if "gradient_calls" in frame else frame["round"]
    frame = frame.assign(gradient_calls=calls)
    last = frame.groupby(CURVE).tail(1).set_index(CURVE)
    there = first_rows_at(frame, metric, level).set_index(CURVE).reindex(last.index)
    if (there["bits"] == 0).any():
        raise ValueError(f"{metric} {level:g}: reached before anything is sent; give the track a harder level")
    digest = frame.groupby(CURVE)[metric].agg(lambda values: hash(values.to_numpy().tobytes()))
    found = there.where(last["round"] >= last["planned_rounds"])
    return found.assign(spent=last["bits"], digest=digest).sort_index()


def geometric_interval(values: np.ndarray, is_bound: bool = False) -> tuple[float, float, float]:
    """The geometric mean of a sample and the ends of its 95 % interval, Student's t on the logarithms.

    `is_bound`: some values are lower bounds. Then the mean and the lower end are lower bounds too, and the upper end
    is infinite. Missing values are left out. A single value has no interval (NaN), and none has no mean either.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # a lower bound may be 0
        logs = np.log(values[~np.isnan(values)])
        half = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs) if len(logs) > 1 else np.nan
        mean = logs.mean() if len(logs) else np.nan
    mean, low, high = np.exp([mean, mean - half, mean + half])
    return float(mean), float(low), math.inf if is_bound else float(high)


def average_tasks(needs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The geometric mean over tasks of the bits of each seed (row) and algorithm (column), and whether it is a bound.

    A run that missed the level counts with all bits that it spent. The mean is then a lower bound. It is missing if
    the seed has not run on every task.
    """
    spent = needs["bits"].fillna(needs["spent"])  # 0 if the run diverged before it was evaluated again
    logs = [math.log(bits) if bits else -math.inf for bits in spent.tolist()]
    parts = needs.assign(bits=logs, is_bound=needs["bits"].isna()).groupby(["seed", "algorithm"])
    bits, is_bound = parts["bits"].mean().map(math.exp), parts["is_bound"].any()
    bits = bits.where(parts.size() == needs.index.unique("task").size)
    return bits.unstack(), is_bound.unstack(fill_value=False)


def differences(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """log(theirs) − log(mine) of the bits of paired runs.

    A run that missed the level (NaN) needs more than any that reached it. If both missed it, the difference is 0.
    """
    mine_there, theirs_there = np.isfinite(mine), np.isfinite(theirs)
    known = np.log(np.where(theirs_there, theirs, np.inf)) - np.log(np.where(mine_there, mine, 1.0))
    return np.select([mine_there, theirs_there], [known, -np.inf], 0.0)


def signed_rank(differences: np.ndarray) -> tuple[float, int]:
    """Wilcoxon's signed-rank test: the exact two-sided p, and the sign with the larger sum of ranks.

    Differences of 0, up to rounding, are left out. scipy.stats.wilcoxon has no exact p for more than 13 differences
    with ties, which are usual here.
    """
    kept = np.round(differences, 12)
    kept = kept[kept != 0]
    ranks = np.round(2 * stats.rankdata(np.abs(kept))).astype(int)  # ties have halves
    chances = _chances(tuple(sorted(ranks.tolist())))
    positive, negative = int(ranks[kept > 0].sum()), int(ranks[kept < 0].sum())
    return min(1.0, 2 * float(chances[: min(positive, negative) + 1].sum())), int(np.sign(positive - negative))


@cache
def _chances(ranks: tuple[int, ...]) -> np.ndarray:
    """The probability of every sum of positive ranks, from 0, if each rank is positive with probability 1/2."""
    chances = np.ones(1)
    for rank in ranks:
        half, chances = chances / 2, np.zeros(len(chances) + rank)
        chances[: len(half)] = half
        chances[rank:] += half
    return chances


def holm(p: np.ndarray) -> np.ndarray:
    """p values corrected for their number (Holm 1979), so that ALPHA bounds the chance of any false `ahead`."""
    order = np.argsort(p)
    corrected = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected[np.argsort(order)]


def compare(needs: pd.DataFrame) -> pd.DataFrame:
    """Compare every two algorithms by runs paired by task and seed.

    Columns are one, other, pairs, p, corrected, verdict and winner. The winner is `AHEAD` if the corrected p is below
    ALPHA. If there are too few pairs to reach that even when all agree, the verdict is `NOT_DECIDABLE`; otherwise it
    is `TIE`. Seeds that give both algorithms the same numbers count as one pair. A pair does not count if both
    algorithms missed the level.
    """
    runs: dict[str, dict[tuple[str, int], tuple[float, int]]] = defaultdict(dict)
    for (task, name, seed), bits, digest in needs[["bits", "digest"]].itertuples():
        runs[name][task, seed] = bits, digest
    found = []
    for one, other in combinations(sorted(runs), 2):
        pairs = {}
        for run in runs[one].keys() & runs[other].keys():
            (mine, digest), (theirs, other_digest) = runs[one][run], runs[other][run]
            pairs[run[0], digest, other_digest] = mine, theirs
        p, sign = signed_rank(differences(*np.array(list(pairs.values())).reshape(-1, 2).T))
        decisive = sum(not math.isnan(mine) or not math.isnan(theirs) for mine, theirs in pairs.values())
        found.append((one, other, decisive, p, one if sign > 0 else other))
    rows = pd.DataFrame(found, columns=["one", "other", "pairs", "p", "winner"])
    rows["corrected"] = holm(rows["p"].to_numpy())
    is_ahead, can_tell = rows["corrected"] < ALPHA, rows["pairs"] >= least_pairs(len(rows))
    rows["verdict"] = np.select([is_ahead, can_tell], [AHEAD, TIE], NOT_DECIDABLE)
    return rows.assign(winner=rows["winner"].where(is_ahead, ""))


def least_pairs(tests: int) -> int:
    """The least number of pairs whose smallest p, 2^(1 − pairs), stays below ALPHA when corrected for all tests."""
    return math.floor(math.log2(tests / ALPHA)) + 2 if tests else 0


def ranks(compared: pd.DataFrame, names: Iterable[str]) -> pd.Series:
    """The rank of every name: 1 plus the number of these entries that are ahead. Empty if no pair is decidable."""
    own = compared[compared[["one", "other"]].isin(list(names)).all(axis=1)]
    losers = own["one"].where(own["winner"] != own["one"], own["other"])[own["verdict"] == AHEAD]
    verdicts = (compared if own.empty else own)["verdict"]  # a name alone: the track may have too few runs
    can_tell = verdicts.empty or (verdicts != NOT_DECIDABLE).any()
    return 1 + losers.value_counts().reindex(list(names) if can_tell else [], fill_value=0).astype("Int64")


def on_front(cost: np.ndarray, badness: np.ndarray) -> np.ndarray:
    """Whether no other point is at least as good in both and better in one. False for values that are not finite."""
    no_worse = (cost[:, None] <= cost) & (badness[:, None] <= badness)
    beaten = (no_worse & ~no_worse.T).any(axis=0)
    return ~beaten & np.isfinite(cost) & np.isfinite(badness)


def messages(frame: pd.DataFrame) -> pd.DataFrame:
    """Properties of each algorithm's messages, from the bits of its rows.

    width: bits per coordinate if all messages in both directions have the same, such as 32 for floats; else missing.
        Local steps have none.
    compressed: the directions that take fewer than 32d bits per round over the whole run.
    warm_up: the share of the rounds that are dense before the first smaller message; 0 for at most one such round.
    """
    rows, found = frame[frame["round"] > 0].sort_values("round"), {}
    numbers = rows["d"] * rows["round"]
    rows = rows.assign(up=rows["bits_up"] / numbers, down=rows["bits_down"] / numbers)
    rows["whole"] = rows[["up", "down"]].eq(32).all(axis=1).groupby([rows[key] for key in CURVE]).cummin()
    for name, own in rows.groupby("algorithm"):
        ways = [way for way in ("up", "down") if own[way].iloc[-1] < 32]
        until = own.loc[own["whole"], "round"].max()
        share = until / own["planned_rounds"].max() if ways and until > 1 else 0.0
        is_even = own[["up", "down"]].eq(own["up"].iloc[0]).all(axis=None)
        skips = "stages" in own and (own["stages"] < 1).any()
        width = own["up"].iloc[0] if is_even and not skips else np.nan
        found[name] = width, " and ".join(ways) or "none", share
    return pd.DataFrame.from_dict(found, orient="index", columns=["width", "compressed", "warm_up"])
