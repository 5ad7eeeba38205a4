"""The rules by which entries are compared, each a function of numbers.

Needs are what runs spent until their metric was first seen at a level. A run that is never seen there, or diverges,
has a need without a value. docs/leaderboard.md says why each rule is as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from plots.runs.network import first_there

CURVE = ["task", "algorithm", "seed"]

ALPHA = 0.01
"""Below this p, corrected for the number of pairs, one entry is ahead of another."""

AHEAD, TIE, NOT_TOLD = "ahead", "tie", "cannot be told"


def needs(frame: pd.DataFrame, metric: str, level: float) -> pd.DataFrame:
    """What each curve had spent at its first evaluation at or beyond a level; index task, algorithm and seed.

    Columns are those of `frame`, missing for a curve that ended early or was never there. Further ones are `spent`,
    all bits of the run, and `digest`, a hash of the metric's values. A worker takes one gradient a round unless
    `gradient_calls` says otherwise. Raises ValueError for a level that the start has.
    """
    frame = frame.sort_values("round", kind="stable").reset_index(drop=True)
    calls = frame["gradient_calls"].fillna(frame["round"]) if "gradient_calls" in frame else frame["round"]
    frame = frame.assign(gradient_calls=calls)
    last = frame.groupby(CURVE).tail(1).set_index(CURVE)
    there = first_there(frame, metric, level).set_index(CURVE).reindex(last.index)
    if (there["bits"] == 0).any():
        raise ValueError(f"{metric} {level:g}: reached before anything is sent; give the track a harder level")
    digest = frame.groupby(CURVE)[metric].agg(lambda values: hash(values.to_numpy().tobytes()))
    found = there.where(last["round"] >= last["planned_rounds"])
    return found.assign(spent=last["bits"], digest=digest).sort_index()


def geometric_interval(values: np.ndarray, is_bound: bool = False) -> tuple[float, float, float]:
    """The geometric mean of a sample and its 95 % interval: that of Student's t on the logarithms.

    With `is_bound` some are larger than the values say: so are the mean and the lower end, and the upper end is
    infinite. The ends of a single value are not known (NaN).
    """
    logs = np.log(values)
    half = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs) if len(logs) > 1 else np.nan
    mean, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
    return float(mean), float(low), math.inf if is_bound else float(high)


def over_tasks(needs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The geometric mean over tasks of every algorithm's (a column) and seed's bits, or of what was spent without
    getting there; and whether the latter is in it."""
    each = needs.assign(bits=needs["bits"].fillna(needs["spent"]).map(math.log), is_bound=needs["bits"].isna())
    parts = each.groupby(["seed", "algorithm"])
    bits, is_bound = parts["bits"].mean().map(math.exp), parts["is_bound"].any()
    return bits.unstack(), is_bound.unstack(fill_value=False)


def differences(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """By how much their log bits are more than mine, of paired runs. A run that was not there (NaN) needs more than
    any that was; of two there is no telling, and their difference is 0."""
    mine_there, theirs_there = np.isfinite(mine), np.isfinite(theirs)
    known = np.log(np.where(theirs_there, theirs, np.inf)) - np.log(np.where(mine_there, mine, 1.0))
    return np.select([mine_there, theirs_there], [known, -np.inf], 0.0)


def signed_rank(differences: np.ndarray) -> tuple[float, int]:
    """Wilcoxon's signed-rank test: the exact two-sided p, and the sign of what is more. Zeros are left out.

    scipy.stats.wilcoxon has no exact p for more than 13 differences of which some are equal, which is the usual case
    here. Under the hypothesis every difference has either sign with probability 1/2; this adds up their ranks.
    """
    found = np.round(differences[differences != 0], 12)
    ranks = np.round(2 * stats.rankdata(np.abs(found))).astype(int)  # ties have halves
    chances = np.ones(1)
    for rank in ranks:
        chances = np.pad(chances, (0, rank)) / 2 + np.pad(chances, (rank, 0)) / 2
    positive, negative = int(ranks[found > 0].sum()), int(ranks[found < 0].sum())
    return min(1.0, 2 * float(chances[: min(positive, negative) + 1].sum())), int(np.sign(positive - negative))


def holm(p: np.ndarray) -> np.ndarray:
    """p corrected for their number, so that ALPHA bounds the chance of any false `ahead` (Holm 1979)."""
    order = np.argsort(p)
    corrected = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected[np.argsort(order)]


def compare(needs: pd.DataFrame) -> pd.DataFrame:
    """Every two algorithms, paired by task and seed: columns one, other, pairs, p, corrected, verdict and winner.

    `AHEAD` of the winner is said at a corrected p below ALPHA. It cannot be told where so few pairs could not reach
    that even if all agreed; else there is a tie. Seeds that gave both the same numbers are one pair.
    """
    columns = needs[["bits", "digest"]]
    parts = {str(name): rows.droplevel("algorithm") for name, rows in columns.groupby("algorithm")}
    found = []
    for one, other in combinations(parts, 2):
        both = parts[one].merge(parts[other], on=["task", "seed"], suffixes=("", "_other")).reset_index()
        both = both.drop_duplicates(["task", "digest", "digest_other"])
        p, sign = signed_rank(differences(both["bits"].to_numpy(), both["bits_other"].to_numpy()))
        found.append((one, other, len(both), p, one if sign > 0 else other))
    rows = pd.DataFrame(found, columns=["one", "other", "pairs", "p", "winner"])
    rows["corrected"] = holm(rows["p"].to_numpy())
    is_ahead, can_tell = rows["corrected"] < ALPHA, rows["pairs"] >= least_pairs(len(rows))
    rows["verdict"] = np.select([is_ahead, can_tell], [AHEAD, TIE], NOT_TOLD)
    return rows.assign(winner=rows["winner"].where(is_ahead, ""))


def least_pairs(tests: int) -> int:
    """Of how many pairs on the least p, 2^(1 - pairs), corrected for so many tests, is below ALPHA."""
    return math.floor(math.log2(tests / ALPHA)) + 2 if tests else 0


def ranks(compared: pd.DataFrame, names: Iterable[str]) -> pd.Series:
    """1 and the number of these entries that are ahead, by name; none where no pair can be told."""
    some = compared[compared[["one", "other"]].isin(list(names)).all(axis=1)]
    losers = some["one"].where(some["winner"] != some["one"], some["other"])[some["verdict"] == AHEAD]
    can_tell = some.empty or (some["verdict"] != NOT_TOLD).any()
    return 1 + losers.value_counts().reindex(list(names) if can_tell else [], fill_value=0).astype("Int64")


def on_front(cost: np.ndarray, badness: np.ndarray) -> np.ndarray:
    """Whether no other point costs less and is as good, or is better for the same cost; False where not finite."""
    no_worse = (cost[:, None] <= cost) & (badness[:, None] <= badness)
    beaten = (no_worse & ~no_worse.T).any(axis=0)
    return ~beaten & np.isfinite(cost) & np.isfinite(badness)


def messages(frame: pd.DataFrame) -> pd.DataFrame:
    """What each algorithm's messages are, by the bits of its rows.

    width: the bits a coordinate and direction, where every message has as many (32 of floats), else missing.
    compressed: the directions that take fewer than 32d bits a round in all. warm_up: the share of the rounds before
    the first message of fewer bits, of methods that compress more than a start later.
    """
    rows, found = frame[frame["round"] > 0].sort_values("round"), {}
    numbers = rows["d"] * rows["round"]
    rows = rows.assign(up=rows["bits_up"] / numbers, down=rows["bits_down"] / numbers)
    rows["whole"] = rows[["up", "down"]].eq(32).all(axis=1).groupby([rows[key] for key in CURVE]).cummin()
    for name, some in rows.groupby("algorithm"):
        ways = [way for way in ("up", "down") if some[way].iloc[-1] < 32]
        until = some.loc[some["whole"], "round"].max()
        share = until / some["planned_rounds"].max() if ways and until > 1 else 0.0
        width = some["up"].iloc[0] if some[["up", "down"]].eq(some["up"].iloc[0]).all(axis=None) else np.nan
        found[name] = {"width": width, "compressed": " and ".join(ways) or "none", "warm_up": share}
    return pd.DataFrame.from_dict(found, orient="index")
