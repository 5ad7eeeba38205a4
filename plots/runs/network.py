"""What training would have taken on a network, for any topology of exchange and any number of workers.

After r rounds in which a worker computed for c seconds, sent `bits_up` and received `bits_down` (cumulative),

    seconds = c + (f_up · bits_up + f_down · bits_down) / bandwidth + hops · latency · r,

or with `overlap` the larger of c and what goes up in the place of their sum, as where messages leave while the
backward pass still runs. f_up, f_down and hops follow from n, with k = ⌈log₂n⌉, and from how messages travel: a link
carries as much in each direction at once.

    rank0       n−1, k(k+1)/2, 2+k        up over the link of the server's rank, down along a binomial tree
    sharded     (n−1)/S, (n−1)/S, 2e      S workers serve d/S coordinates each: all-to-all, then all-gather
    all_gather  n−1, 0, 2                 every worker gets all messages, and does the server's part itself
    ring        (n−1)/n, (n−1)/n, 2(n−1)  ring all-reduce, of what is not compressed
    tree        k, k, 2k                  reduced along a binary tree and broadcast back, of what is not compressed

Before a message goes its receiver says that it is ready, as gloo has it: two hops, or one where the receiver has been
waiting, as all do for what rank 0 sends and for the next part in a ring or a tree. S is n or, where that is less, the
`servers` that a vector can have, for it is cut in few places, and e the `exchanges` of the method: both are recorded
(`algorithms.comm.sharded_server.exchange`). Of runs that do not say, a server has 2¹² coordinates and e is 2.

c is a worker's own share of the measured training time, in which `ranks` processes computed for all workers, and for
all step sizes of the grid (trials) at once: seconds / (⌈workers / ranks⌉ · trials), the server's own work included;
or, for other hardware, r times the `computing` that is given. Rounds to a level are those measured with the run's own
n: the model does not say that more workers need fewer, or a server in parts less time. The page of results has the
same formulas, in plots/page/numbers.js.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from common.errors import UsageError
from plots.runs.columns import sign

Numbers = Any  # one, or a column of them

FORMS: dict[str, Callable[[int, int, int], tuple[float, float, float]]] = {
    "rank0": lambda n, s, e: (n - 1, _steps(n) * (_steps(n) + 1) / 2, 2 + _steps(n)),
    "sharded": lambda n, s, e: ((n - 1) / min(n, s), (n - 1) / min(n, s), 2 * e),
    "all_gather": lambda n, s, e: (n - 1, 0, 2),
    "ring": lambda n, s, e: ((n - 1) / n, (n - 1) / n, 2 * (n - 1)),
    "tree": lambda n, s, e: (_steps(n), _steps(n), 2 * _steps(n)),
}
"""By name, of n workers, of whom s at most can serve, and e exchanges: f_up, f_down and hops."""


def _steps(n: int) -> int:
    """⌈log₂n⌉."""
    return (n - 1).bit_length()


REDUCTIONS = ("ring", "tree")
"""Those that add up on their way: no compressed message can travel so, and all others do as a user would run them."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Network:
    """Links of `bandwidth` Mbit/s a direction and `latency` milliseconds one way, of `workers` (None: the run's own).

    topology: how messages travel. `ring` and `tree` are for uncompressed methods, and compressed ones then have a
    `sharded` server; the others are for compressed methods, and uncompressed ones then go by `ring`. overlap: whether
    messages leave while the backward pass still runs. computing: milliseconds a round, of every method; None: as
    measured, each method's own.
    """

    bandwidth: float = 100.0
    latency: float = 1.0
    topology: Literal["rank0", "sharded", "ring", "tree", "all_gather"] = "sharded"
    overlap: bool = False
    computing: float | None = None
    workers: int | None = None

    def form(self, uncompressed: bool) -> str:
        """The topology of such a method's messages."""
        if uncompressed == (self.topology in REDUCTIONS):
            return self.topology
        return "ring" if uncompressed else "sharded"

    def check(self, place: str = "") -> None:
        """Raise UsageError for a bandwidth, a latency or a number of workers that no network has."""
        if not 0 < self.bandwidth < math.inf:
            raise UsageError(f"{place}bandwidth={self.bandwidth:g}: must be a positive number, in Mbit/s")
        if not 0 <= self.latency < math.inf:
            raise UsageError(f"{place}latency={self.latency:g}: must be a number of at least 0, in milliseconds")
        if self.computing is not None and not 0 <= self.computing < math.inf:
            raise UsageError(f"{place}computing={self.computing:g}: must be at least 0, in milliseconds a round")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"{place}workers={self.workers}: must be at least 1")

    def in_words(self) -> str:
        """The network and both ways of messages, for a caption."""
        overlap = ", sending while computing" if self.overlap else ""
        computing = "" if self.computing is None else f", computing {self.computing:g} ms a round"
        return (
            f"{self.bandwidth:g} Mbit/s a link and direction, {self.latency:g} ms one way{computing}{overlap}; "
            f"compressed messages by {self.form(False)}, uncompressed ones by {self.form(True)}"
        )


def is_dense(bits: Numbers, rounds: Numbers, d: Numbers) -> Numbers:
    """Whether nothing but dense vectors had been sent: 32d bits a round in each direction."""
    return bits == 64 * d * rounds


def is_uncompressed(frame: pd.DataFrame) -> pd.Series:
    """Whether the curve that a row belongs to sends nothing but dense vectors. Raises UsageError for runs so old that
    they do not say how many parameters they have."""
    if (unsaid := frame["d"].isna()).any():
        names = ", ".join(sorted(frame["algorithm"][unsaid].unique()))
        raise UsageError(f"{names}: these runs do not say their number of parameters d; train them again")
    dense = is_dense(frame["bits"], frame["round"], frame["d"])
    return dense.groupby([frame[key] for key in ("task", "algorithm", "lr", "seed")]).transform("all")


def own_share(frame: pd.DataFrame) -> pd.Series:
    """Seconds that one worker computed for one step size: the slowest rank has ⌈workers / ranks⌉ workers."""
    return frame["seconds"] / (np.ceil(frame["workers"] / frame["ranks"]) * frame["trials"])


def seconds(frame: pd.DataFrame, network: Network, form: str) -> pd.Series:
    """The model's time at every row of a frame of `plots.runs.read.table`, for an exchange of that form."""
    workers = frame["workers"] if network.workers is None else pd.Series(network.workers, frame.index)
    up, down, hops = _factors(workers, frame["servers"], frame["exchanges"], form)
    going_up, coming_down = (
        factor * frame[bits] / (network.bandwidth * 1e6) for factor, bits in ((up, "bits_up"), (down, "bits_down"))
    )
    given = network.computing
    computing = own_share(frame) if given is None else given * 1e-3 * frame["round"]
    first = computing.clip(lower=going_up) if network.overlap else computing + going_up
    return first + coming_down + hops * network.latency * 1e-3 * frame["round"]


def _factors(workers: pd.Series, servers: pd.Series, exchanges: pd.Series, form: str) -> np.ndarray:
    """f_up, f_down and hops [3, rows] at rows of runs with so many workers, servers at most and exchanges each."""
    cases = [*zip(*(column.astype(int) for column in (workers, servers, exchanges)), strict=True)]
    of = {case: FORMS[form](*case) for case in {*cases}}
    return np.array([of[case] for case in cases]).reshape(-1, 3).T


def modelled_seconds(frame: pd.DataFrame, network: Network) -> pd.Series:
    """The model's time at every row, each method's messages by the form that it would be run with."""
    dense, times = is_uncompressed(frame), pd.Series(math.nan, frame.index)
    for kind in (True, False):
        rows = dense == kind
        times[rows] = seconds(frame[rows], network, network.form(kind))
    return times


def first_there(frame: pd.DataFrame, metric: str, level: float) -> pd.DataFrame:
    """Of every curve the row at which it was first seen at or beyond a level."""
    there = frame[sign(metric) * frame[metric] <= sign(metric) * level]
    return there.sort_values("round").drop_duplicates(["task", "algorithm", "lr", "seed"])


def seconds_to(frame: pd.DataFrame, metric: str, level: float, networks: Sequence[Network]) -> pd.DataFrame:
    """Seconds until each method was seen at or beyond a level, with the step size that is fastest on each network.

    Columns task, algorithm, label, uncompressed (whether the method is), form, workers, bandwidth, seconds and lr,
    the last two missing where no step size got there with every seed; of several seeds seconds are the mean. A method
    has one row for a form, a number of workers and a bandwidth, whichever of the networks name these.
    """
    first, found = first_there(frame, metric, level), []
    for (task, algorithm), rows in frame.groupby(["task", "algorithm"], sort=False):
        mine = first[(first["task"] == task) & (first["algorithm"] == algorithm)]
        mine = mine[mine.groupby("lr")["seed"].transform("nunique") == rows["seed"].nunique()]
        lrs, of_lr = np.unique(mine["lr"], return_inverse=True)
        about = {"task": task, "algorithm": algorithm, "label": rows["label"].iloc[0]}
        about["uncompressed"] = dense = bool(is_uncompressed(rows).all())
        forms = [(network.form(dense), network) for network in networks]
        for form, network in {(form, net.workers, net.bandwidth): (form, net) for form, net in forms}.values():
            sums = np.bincount(of_lr, weights=seconds(mine, network, form), minlength=len(lrs))
            means = sums / np.bincount(of_lr, minlength=len(lrs))
            fastest = (means.min(), lrs[means.argmin()]) if len(lrs) else (math.nan, math.nan)
            place = {"form": form, "workers": network.workers, "bandwidth": network.bandwidth}
            found.append({**about, **place, "seconds": fastest[0], "lr": fastest[1]})
    return pd.DataFrame(found)


def pays(times: pd.DataFrame) -> dict[tuple[str, int], tuple[float, float] | None]:
    """By compressed method and n the least and the greatest bandwidth tried at which it is faster than all
    uncompressed methods.

    None where it is so at none; nothing where there is no uncompressed method. `times` is of one task, as
    `seconds_to` gives it; who never got to the level took forever.
    """
    dense = times["uncompressed"].astype(bool)
    if not dense.any():
        return {}
    place, seconds = ["workers", "bandwidth"], times["seconds"].fillna(math.inf)
    rivals = times[dense].assign(seconds=seconds).groupby(place)["seconds"].min()
    found: dict[tuple[str, int], tuple[float, float] | None] = {}
    for (label, workers), rows in times[~dense].assign(seconds=seconds).groupby(["label", "workers"], sort=False):
        faster = rows["seconds"].to_numpy() < rivals.loc[pd.MultiIndex.from_frame(rows[place])].to_numpy()
        at = rows.loc[faster, "bandwidth"]
        found[str(label), int(str(workers))] = (at.min(), at.max()) if len(at) else None
    return found
