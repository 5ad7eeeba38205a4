"""Modelled training time on a network, for any topology of exchange and any number of workers.

After r rounds in which a worker computed for c seconds, sent `bits_up` and received `bits_down` (cumulative),

    seconds = c + (f_up · bits_up + f_down · bits_down) / bandwidth + hops · latency · s · r,

or with `overlap` the larger of c and the uplink time instead of their sum, because messages leave during the backward
pass. f_up, f_down and hops follow from n and the topology: docs/reports.md has the table and its assumptions. c is
one worker's share of the measured training time, in which `ranks` processes computed for all workers and all step
sizes of the grid (trials): seconds / (⌈workers / ranks⌉ · trials), the server's own work included. For other hardware
it is r times the given `computing`. s is the average number of communications per round: less than 1 with local
steps, 2 for PowerSGD, 1 if it is missing. Rounds to a level are those measured with the run's own n: the model does
not claim that more workers need fewer.

With groups of m workers n is the number of groups. Inside a group, `bits_inside` / 64d gradients were averaged by a
ring all-reduce over links of its own. That adds (m − 1)/m · bits_inside / inside_bandwidth, and 2(m − 1) ·
inside_latency for every gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from annotated_types import Ge, Gt

from common.errors import UsageError
from plots.runs.columns import sign
from plots.runs.options import Options

FORMS: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "rank0": lambda n, s, e: (n - 1, _steps(n) * (_steps(n) + 1) / 2, 2 + _steps(n)),
    "sharded": lambda n, s, e: ((n - 1) / np.minimum(n, s), (n - 1) / np.minimum(n, s), 2 * e),
    "all_gather": lambda n, s, e: (n - 1, 0, 2),
    "ring": lambda n, s, e: ((n - 1) / n, (n - 1) / n, 2 * (n - 1)),
    "tree": lambda n, s, e: (_steps(n), _steps(n), 2 * _steps(n)),
}
"""f_up, f_down and hops by topology, for n workers, at most s servers and e exchanges (numbers or columns)."""


def _steps(n: Any) -> Any:
    return np.ceil(np.log2(n))


Topology = Literal["rank0", "sharded", "ring", "tree", "all_gather"]

REDUCTIONS = ("ring", "tree")
"""Topologies that add messages on their way, so compressed messages cannot use them."""

FLOATS = {"Identity": 64, "Bf16": 32, "Fp16": 32}
"""Compressors whose messages an all-reduce can add, and their bits per coordinate, up and down together."""


class Network(Options):
    """Links of `bandwidth` Mbit/s a direction and `latency` milliseconds one way, of `workers` (None: the run's own).

    topology: the path of messages. `ring` and `tree` are for uncompressed methods; compressed ones then use a
    `sharded` server. The others are for compressed methods; uncompressed ones then use `ring`. overlap: whether
    messages leave during the backward pass. computing: milliseconds a round for every method; None: each method's
    measured time. inside_bandwidth, inside_latency: of links inside a group of workers; None: as between groups.
    """

    bandwidth: Annotated[float, Gt(0)] = 100.0
    latency: Annotated[float, Ge(0)] = 1.0
    topology: Topology = "sharded"
    overlap: bool = False
    computing: Annotated[float, Ge(0)] | None = None
    workers: Annotated[int, Ge(1)] | None = None
    inside_bandwidth: Annotated[float, Gt(0)] | None = None
    inside_latency: Annotated[float, Ge(0)] | None = None

    def form(self, uncompressed: bool) -> str:
        """The topology of a method's messages."""
        if uncompressed == (self.topology in REDUCTIONS):
            return self.topology
        return "ring" if uncompressed else "sharded"

    def in_words(self) -> str:
        """Describe the network and both topologies, for a caption."""
        overlap = ", sending while computing" if self.overlap else ""
        computing = "" if self.computing is None else f", computing {self.computing:g} ms a round"
        links = f"{self.bandwidth:g} Mbit/s a link and direction, {self.latency:g} ms one way"
        if (self.inside_bandwidth, self.inside_latency) != (None, None):
            bandwidth, latency = self.link_inside()
            links += f", inside groups {bandwidth:g} Mbit/s and {latency:g} ms"
        return (
            f"{links}{computing}{overlap}; "
            f"compressed messages by {self.form(False)}, uncompressed ones by {self.form(True)}"
        )

    def link_inside(self) -> tuple[float, float]:
        """Mbit/s and milliseconds of a link inside a group."""
        bandwidth = self.bandwidth if self.inside_bandwidth is None else self.inside_bandwidth
        return bandwidth, self.latency if self.inside_latency is None else self.inside_latency


def is_uncompressed(frame: pd.DataFrame) -> pd.Series:
    """Whether a row's curve sends only whole vectors of floats that an all-reduce can add.

    With local steps there is a vector every few rounds. PowerSGD without matrices exchanges twice a round, and sends
    one vector.
    """
    vectors = frame["bits"] / (frame["compressor"].map(FLOATS) * frame["d"])
    late = (vectors - frame["round"] * _stages(frame).clip(upper=1)).abs()  # at most part of a vector
    dense = (vectors % 1 == 0) & (late < 1)
    return dense.groupby([frame[key] for key in ("task", "algorithm", "lr", "seed")]).transform("all")


def _stages(frame: pd.DataFrame) -> pd.Series:
    """The average number of communications per round; 1 if it is not recorded."""
    return frame.get("stages", pd.Series(1.0, frame.index)).fillna(1)


def _check_groups(frame: pd.DataFrame, networks: Sequence[Network]) -> None:
    """Raise UsageError for a number of workers that groups of these runs cannot form."""
    sizes = (frame["workers"] / frame["groups"]).dropna().unique() if "groups" in frame else []
    for size, workers in product(sizes, {network.workers for network in networks} - {None}):
        if workers % size:
            raise UsageError(
                f"network.workers={workers}: runs have groups of {size:g} workers; give a multiple of {size:g}"
            )


def worker_seconds(frame: pd.DataFrame) -> pd.Series:
    """Seconds that one worker computed for one step size: the slowest rank has ⌈workers / ranks⌉ workers."""
    return frame["seconds"] / (np.ceil(frame["workers"] / frame["ranks"]) * frame["trials"])


def seconds(frame: pd.DataFrame, network: Network, form: str) -> pd.Series:
    """The modelled time at every row of a frame of `plots.runs.read.table`, with topology `form`."""
    groups = frame["groups"].fillna(frame["workers"]) if "groups" in frame else frame["workers"]
    group_size = frame["workers"] / groups
    n = ((network.workers or frame["workers"]) / group_size).clip(lower=1)
    up, down, hops = FORMS[form](n, frame["servers"], frame["exchanges"])
    hops = np.where(n > 1, hops, 0)  # one worker sends nothing
    going_up = up * frame["bits_up"] / (network.bandwidth * 1e6)
    coming_down = down * frame["bits_down"] / (network.bandwidth * 1e6)
    given = network.computing
    computing = worker_seconds(frame) if given is None else given * 1e-3 * frame["round"]
    first = computing.clip(lower=going_up) if network.overlap else computing + going_up
    between = first + coming_down + hops * network.latency * 1e-3 * frame["round"] * _stages(frame)
    return between + _seconds_inside(frame, network, group_size) if "bits_inside" in frame else between


def _seconds_inside(frame: pd.DataFrame, network: Network, group_size: pd.Series) -> pd.Series:
    bandwidth, latency = network.link_inside()
    bits, (share, _, hops) = frame["bits_inside"].fillna(0), FORMS["ring"](group_size, None, None)
    return share * bits / (bandwidth * 1e6) + hops * latency * 1e-3 * bits / (64 * frame["d"])


def modelled_seconds(frame: pd.DataFrame, network: Network) -> pd.Series:
    """The modelled time at every row. The topology follows from whether a method compresses."""
    _check_groups(frame, [network])
    dense, compressed = (seconds(frame, network, network.form(uncompressed)) for uncompressed in (True, False))
    return dense.where(is_uncompressed(frame), compressed)


def first_rows_at(frame: pd.DataFrame, metric: str, level: float) -> pd.DataFrame:
    """Each curve's first row at or beyond a level."""
    there = frame[sign(metric) * frame[metric] <= sign(metric) * level]
    return there.sort_values("round").drop_duplicates(["task", "algorithm", "lr", "seed"])


def seconds_to(frame: pd.DataFrame, metric: str, level: float, networks: Sequence[Network]) -> pd.DataFrame:
    """Seconds until each method is first seen at or beyond a level, with the fastest step size on each network.

    Columns are task, algorithm, label, uncompressed, form, workers, bandwidth, seconds_to_level (the mean over seeds)
    and lr. The last two are missing if no step size got there with every seed. A method has one row for each form,
    number of workers and bandwidth, even if several networks share these.
    Raises UsageError for a number of workers that is no multiple of the runs' groups.
    """
    _check_groups(frame, networks)
    found = []
    for (task, algorithm), rows in frame.groupby(["task", "algorithm"], sort=False):
        mine = first_rows_at(rows, metric, level)
        mine = mine[mine.groupby("lr")["seed"].transform("nunique") == rows["seed"].nunique()]
        about = {"task": task, "algorithm": algorithm, "label": rows["label"].iloc[0]}
        about["uncompressed"] = dense = bool(is_uncompressed(rows).all())
        forms = [(network.form(dense), network) for network in networks]
        for form, network in {(form, net.workers, net.bandwidth): (form, net) for form, net in forms}.values():
            means = seconds(mine, network, form).groupby(mine["lr"]).mean()
            place = {"form": form, "workers": network.workers, "bandwidth": network.bandwidth}
            lr = math.nan if means.empty else means.idxmin()
            found.append({**about, **place, "seconds_to_level": means.min(), "lr": lr})
    return pd.DataFrame(found)


def paying_range(times: pd.DataFrame) -> pd.DataFrame:
    """The least and greatest bandwidth tried at which compressed methods are faster than all uncompressed ones.

    Index task, label and workers; columns least and greatest, missing if there is none. Empty without uncompressed
    methods. `times` comes from `seconds_to`; a method that never got to the level took infinitely long.
    """
    dense, place = times["uncompressed"].astype(bool), ["task", "workers", "bandwidth"]
    times = times.fillna({"seconds_to_level": math.inf})
    rivals = times[dense].groupby(place)["seconds_to_level"].min().rename("rival")
    mine = times[~dense].merge(rivals, on=place)
    faster = mine["bandwidth"].where(mine["seconds_to_level"] < mine["rival"])
    ends = faster.groupby([mine["task"], mine["label"], mine["workers"]], sort=False)
    return pd.DataFrame({"least": ends.min(), "greatest": ends.max()})
