"""What training would have taken on a network: a model from measured computing, counted bits and a link.

A round of the protocol is computed by the workers at once, sends a message up and one down, and waits for both on the
way. After r rounds that have cost a worker `bits` (cumulative, both directions)

    modelled seconds = seconds / (⌈workers / ranks⌉ · trials)  +  bits / bandwidth  +  2 · latency · r,

where the server's one link carries the messages of all workers with `workers` times the second term. The first is a
worker's own share of the measured training time, in which `ranks` processes (those the run began with) computed for
all workers, and for all step sizes of its grid (trials) at once. Computing and sending do not overlap, and the
server's own work is counted within that share.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Link:
    """The network between workers and server: `bandwidth` in Mbit/s, `latency` in milliseconds one way.

    `shared`: whether the messages of all workers pass through one such link, the server's, or each has its own.
    """

    bandwidth: float = 100.0
    latency: float = 1.0
    shared: bool = True


def own_share(frame: pd.DataFrame) -> pd.Series:
    """Seconds that one worker computed for one step size: the slowest rank has ⌈workers / ranks⌉ workers."""
    return frame["seconds"] / (np.ceil(frame["workers"] / frame["ranks"]) * frame["trials"])


def modelled_seconds(frame: pd.DataFrame, link: Link) -> pd.Series:
    """The model's time at every row of a frame of `plots.runs.variants.Variant.frame`."""
    computing = own_share(frame)
    messages = frame["workers"] if link.shared else 1
    sending = frame["bits"] * messages / (link.bandwidth * 1e6)
    return computing + sending + 2 * link.latency * 1e-3 * frame["round"]


def at_mean_times(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every time the mean over the seeds of its curve at that round.

    Seeds take different times for the same rounds, and a curve over them has one point a round.
    """
    times = [column for column in ("seconds", "modelled_seconds") if column in frame]
    curves = frame.groupby(["task", "algorithm", "lr", "round"])
    return frame.assign(**{column: curves[column].transform("mean") for column in times})
