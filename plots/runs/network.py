"""What training would have taken on a network, for any form of exchange and any number of workers.

After r rounds in which a worker computed for c seconds, sent `bits_up` and received `bits_down` (cumulative),

    seconds = c + (f_up · bits_up + f_down · bits_down) / bandwidth + hops · latency · r,

or with `overlap` the larger of c and the rest, as where messages leave while the backward pass still runs. f_up,
f_down and hops follow from n and from how messages travel: a link carries as much in each direction at once.

    rank0       n−1, n−1, 2               the link of the server's rank carries the messages of all other workers
    sharded     (n−1)/n, (n−1)/n, 2       every worker serves d/n coordinates: all-to-all, then all-gather
    all_gather  n−1, 0, 1                 every worker gets all messages, and does the server's part itself
    ring        (n−1)/n, (n−1)/n, 2(n−1)  ring all-reduce, of what is not compressed
    tree        ⌈log₂n⌉, ⌈log₂n⌉, 2⌈log₂n⌉  reduced along a binary tree and broadcast back, of what is not compressed

c is a worker's own share of the measured training time, as in `plots.runs.time_model`. Rounds to a level are those
measured with the run's own n: the model does not say that more workers need fewer, or a server in parts less time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from plots.runs.columns import sign
from plots.runs.time_model import own_share

FORMS: dict[str, Callable[[int], tuple[float, float, float]]] = {
    "rank0": lambda n: (n - 1, n - 1, 2),
    "sharded": lambda n: ((n - 1) / n, (n - 1) / n, 2),
    "all_gather": lambda n: (n - 1, 0, 1),
    "ring": lambda n: ((n - 1) / n, (n - 1) / n, 2 * (n - 1)),
    "tree": lambda n: (math.ceil(math.log2(n)), math.ceil(math.log2(n)), 2 * math.ceil(math.log2(n))),
}
"""By name, of n workers: f_up, f_down and hops."""

OF_COMPRESSED = ("rank0", "sharded", "all_gather")
"""Those in which a compressed message can travel; a reduction adds up on its way."""


@dataclass(frozen=True)
class Network:
    """n workers with links of `bandwidth` Mbit/s a direction and `latency` milliseconds one way.

    form: of compressed methods' exchange, uncompressed: of the others'. overlap: whether messages leave while the
    backward pass still runs.
    """

    workers: int
    bandwidth: float
    latency: float = 1.0
    form: str = "sharded"
    uncompressed: str = "ring"
    overlap: bool = False


def is_uncompressed(frame: pd.DataFrame) -> pd.Series:
    """Whether nothing but dense vectors had been sent by a row: 32d bits a round in each direction."""
    return frame["bits"] == 64 * frame["d"] * frame["round"]


def seconds(frame: pd.DataFrame, network: Network, form: str) -> pd.Series:
    """The model's time at every row of a frame of `plots.runs.variants.table`, for an exchange of that form."""
    computing = own_share(frame)
    up, down, hops = FORMS[form](network.workers)
    sent = (up * frame["bits_up"] + down * frame["bits_down"]) / (network.bandwidth * 1e6)
    sending = sent + hops * network.latency * 1e-3 * frame["round"]
    return pd.concat([computing, sending], axis=1).max(axis=1) if network.overlap else computing + sending


def seconds_to(frame: pd.DataFrame, metric: str, level: float, networks: Sequence[Network]) -> pd.DataFrame:
    """Seconds until each method was seen at or beyond a level, with the step size that is fastest on each network.

    Columns task, algorithm, label, uncompressed (whether the method is), workers, bandwidth, seconds and lr, the last
    two missing where no step size got there with every seed; of several seeds seconds are the mean.
    """
    there = frame[sign(metric) * frame[metric] <= sign(metric) * level]
    first = there.sort_values("round").drop_duplicates(["task", "algorithm", "lr", "seed"])
    found = []
    for (task, algorithm), rows in frame.groupby(["task", "algorithm"], sort=False):
        mine = first[(first["task"] == task) & (first["algorithm"] == algorithm)]
        complete = mine.groupby("lr")["seed"].transform("nunique") == rows["seed"].nunique()
        about = {"task": task, "algorithm": algorithm, "label": rows["label"].iloc[0]}
        about["uncompressed"] = dense = bool(is_uncompressed(rows[rows["round"] > 0]).all())
        for network in networks:
            form = network.uncompressed if dense else network.form
            times = seconds(mine[complete], network, form).groupby(mine.loc[complete, "lr"]).mean()
            best = (
                {"seconds": times.min(), "lr": times.idxmin()}
                if len(times)
                else {"seconds": math.nan, "lr": math.nan}
            )
            found.append({**about, "workers": network.workers, "bandwidth": network.bandwidth, **best})
    return pd.DataFrame(found)


def pays_up_to(times: pd.DataFrame) -> dict[tuple[str, int], float | None]:
    """By compressed method and n the largest bandwidth tried up to which it is faster than all uncompressed methods.

    None where it is so at none; nothing where there is no uncompressed method. `times` is of one task, as
    `seconds_to` gives it; who never got to the level took forever.
    """
    found: dict[tuple[str, int], float | None] = {}
    rivals: dict[tuple[int, float], float] = {}
    for row in times.fillna({"seconds": math.inf}).sort_values("bandwidth").to_dict("records"):
        place = row["workers"], row["bandwidth"]
        if row["uncompressed"]:
            rivals[place] = min(row["seconds"], rivals.get(place, math.inf))
    for row in times.sort_values("bandwidth").to_dict("records") if rivals else ():
        if not row["uncompressed"]:
            curve = row["label"], row["workers"]
            smaller = [tried for n, tried in rivals if n == row["workers"] and tried < row["bandwidth"]]
            so_far = found.setdefault(curve, None)
            if so_far == max(smaller, default=None) and row["seconds"] < rivals[row["workers"], row["bandwidth"]]:
                found[curve] = row["bandwidth"]
    return found
