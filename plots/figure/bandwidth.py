"""Modelled time to a level over bandwidth: a panel a number of workers, and where compression pays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from plots.claims.finding import short_exponent
from plots.figure import curves
from plots.figure.spec import Panel, Times
from plots.runs.columns import in_words
from plots.runs.network import Network, first_there, own_share, seconds_to
from plots.runs.seeds import in_order, repeated

A_DECADE = 40
"""Bandwidths that are modelled of every decade."""

PANEL = Panel(x="bandwidth", y="seconds_to_level", x_scale="log")


def over_bandwidth(frame: pd.DataFrame, times: Times, network: Network) -> pd.DataFrame:
    """The rows of `seconds_to` over a range of bandwidths, as `plots.figure.curves.draw` takes them.

    A task of every task and number of workers, an algorithm of every method and topology, whose name is in column
    `method`; `seconds_to_level` in place of seconds.
    """
    low, high = np.log10(times.bandwidth)
    exponents = [*np.linspace(low, high, max(2, math.ceil(A_DECADE * (high - low)) + 1))]
    exponents += range(math.ceil(low), math.floor(high) + 1)  # the decades, which are tabled
    tried = (10.0 ** np.unique(np.round(exponents, 9))).tolist()
    networks = [
        replace(network, workers=workers, topology=topology, bandwidth=bandwidth)
        for workers in times.workers
        for topology in times.topologies
        for bandwidth in tried
    ]
    found = seconds_to(frame, times.metric, times.level, networks).rename(columns={"seconds": "seconds_to_level"})
    looks = frame.drop_duplicates(["task", "algorithm"])[["task", "algorithm", "task_label", "color", "marker"]]
    found = found.merge(looks, on=["task", "algorithm"])
    several = found["task"].nunique() > 1
    of = [f"{n} workers" for n in found["workers"]]
    forms = [form.replace("_", "-") for form in found["form"]]
    return found.assign(
        method=found["algorithm"],
        task=[f"{task}, {text}" for task, text in zip(found["task"], of, strict=True)],
        task_label=[f"{task}\n{text}" for task, text in zip(found["task_label"], of, strict=True)] if several else of,
        algorithm=[f"{name}, {form}" for name, form in zip(found["algorithm"], forms, strict=True)],
        label=[f"{label}, {form}" for label, form in zip(found["label"], forms, strict=True)],
        dash=found.groupby(["task", "algorithm"])["form"].transform(lambda form: pd.factorize(form)[0]),
        round=found.groupby(["task", "algorithm", "form", "workers"]).cumcount(),
        seed=0,  # one curve, the mean over those of the runs
    )


def draw(lines: pd.DataFrame, times: Times, note: str) -> Picture:
    """The lines of `over_bandwidth`."""
    matplotlib.use("Agg")
    figure = curves.draw(lines, [PANEL], note)
    for axis in figure.axes:
        if axis.get_ylabel():
            axis.set_ylabel(f"modelled seconds to\n{in_words(times.metric)} {times.level:g}")
    return figure


def note(frame: pd.DataFrame, lines: pd.DataFrame) -> str:
    """The note in the picture: which runs gave the rounds, and which methods never reach the level."""
    seeds = f"seed{'s' * repeated(frame)} {in_order(frame['seed'])}"
    said = [f"Rounds of runs with {in_order(frame['workers'])} workers, {seeds}"]
    never = lines.groupby("label", sort=False)["seconds_to_level"].agg(lambda seconds: seconds.isna().all())
    said += [f"{', '.join(never[never].index)}: never at the level"] if never.any() else []
    return ". ".join([*said, ""]).strip()


def rows(lines: pd.DataFrame) -> pd.DataFrame:
    """The lines as they are written down: without what only drawing needs."""
    names = ["task", "method", "form", "uncompressed", "workers", "bandwidth", "seconds_to_level", "lr"]
    return lines[names]


def caption(frame: pd.DataFrame, times: Times, network: Network) -> str:
    """What the lines rest on, in words."""
    computing = "as measured" if network.computing is None else f"{network.computing:g} ms a round"
    how = "while messages travel" if network.overlap else "and then messages travel"
    several = (frame.groupby(["task", "algorithm"])["lr"].nunique() > 1).any()
    fastest = ", each method with the step size that is fastest there" if several else ""
    seeds = f", means over seeds {in_order(frame['seed'])}" if frame["seed"].nunique() > 1 else ""
    return (
        f"Modelled seconds until the {in_words(times.metric)} is seen at {times.level:g} or beyond, over the "
        f"bandwidth of every link in each direction; latency {network.latency:g} ms one way, computing {computing}, "
        f"{how}. Rounds are those of the runs with {in_order(frame['workers'])} workers, also where more are "
        f"modelled{seeds}{fastest}."
    )


def reached(frame: pd.DataFrame, times: Times) -> pd.DataFrame:
    """A row a task and method: label, milliseconds of computing and bits of a round, the least and the greatest over
    step sizes and seeds, and rounds to the level."""
    found = []
    for (task, _), rows in frame.groupby(["task", "algorithm"], sort=False):
        ends = rows.sort_values("round").drop_duplicates(["lr", "seed"], keep="last")
        there = first_there(rows, times.metric, times.level)
        found.append({
            "task": task, "label": rows["label"].iloc[0],
            "computing": _span(1e3 * own_share(ends) / ends["round"]), "bits": _span(ends["bits"] / ends["round"]),
            "rounds": _span(there["round"]), "seeds": f"{there['seed'].nunique()} of {rows['seed'].nunique()}",
        })  # fmt: skip
    return pd.DataFrame(found)


def _span(values: Iterable[float]) -> str:
    numbers = sorted(values)
    ends = dict.fromkeys(f"{number:.4g}" for number in (numbers[0], numbers[-1])) if numbers else ["–"]
    return short_exponent(" to ".join(ends))
