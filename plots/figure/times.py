"""A figure of modelled times: seconds to a level over bandwidth, and measured rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from common.tables import write_csv
from plots.claims import claims
from plots.claims.check import short_exponent
from plots.claims.levels import AsMeasured
from plots.figure import curves, markdown
from plots.figure.spec import ROOT, Figure, Panel, Times
from plots.runs.columns import in_words
from plots.runs.network import Network, first_rows_at, paying_range, seconds_to, worker_seconds
from plots.runs.seeds import has_several_seeds, join_sorted

A_DECADE = 40
"""Modelled bandwidths per decade."""


def report(frame: pd.DataFrame, figure: Figure, target: Path) -> tuple[pd.DataFrame, str, list[str]]:
    """Draw the times of a figure from its runs' rows. Returns the findings, the caption, and the report's own lines.

    Writes the picture, the rows, and the modelled lines as lines.csv.
    """
    times = figure.times
    assert times is not None
    lines = model_lines(frame, times, figure.network)
    goal = f"{in_words(times.metric)} {times.level:g}"
    picture = curves.draw(
        lines, [Panel(x="bandwidth", y="seconds_to_level", x_scale="log")], _note(frame, lines, figure)
    )
    for axis in picture.axes:
        if axis.get_ylabel():
            axis.set_ylabel(f"modelled seconds to\n{goal}")
    curves.save(picture, target / f"{figure.name}.pdf", target / f"{figure.name}.png")
    rounds = read_measured(ROOT / times.measured) if times.measured else None
    caption = f"{figure.title}. {_caption(frame, times, figure.network)}"
    write_csv(frame, target / f"{figure.name}.csv")
    names = ["task", "method", "form", "uncompressed", "workers", "bandwidth", "seconds_to_level", "lr"]
    write_csv(lines[names], target / "lines.csv", float_format="%.6g")
    published = (frame["lr"] == frame["algorithm"].map(figure.published)).all()
    findings = _judge(lines, rounds, figure, claims.PAPERS if published else claims.BEST)
    return findings, caption, [*_paying_table(lines), *_basis_table(frame, times, goal)]


def model_lines(frame: pd.DataFrame, times: Times, network: Network) -> pd.DataFrame:
    """Return the rows of `seconds_to` over a range of bandwidths, for `plots.figure.curves.draw`.

    Each pair of task and number of workers becomes a task. Each pair of method and topology becomes an algorithm; the
    method's name is in column `method`.
    """
    low, high = np.log10(times.bandwidth)
    exponents = np.linspace(low, high, max(2, math.ceil(A_DECADE * (high - low)) + 1))
    networks = [
        network.replace(workers=workers, topology=topology, bandwidth=bandwidth)
        for workers in times.workers
        for topology in times.topologies
        for bandwidth in (10.0 ** exponents.round(9)).tolist()
    ]
    lines = seconds_to(frame, times.metric, times.level, networks)
    looks = frame.drop_duplicates(["task", "algorithm"])[["task", "algorithm", "task_label", "color", "marker"]]
    lines = lines.merge(looks, on=["task", "algorithm"])
    several, workers = lines["task"].nunique() > 1, lines["workers"].astype(str) + " workers"
    form = ", " + lines["form"].str.replace("_", "-")
    return lines.assign(
        method=lines["algorithm"],
        task=lines["task"] + ", " + workers,
        task_label=lines["task_label"] + "\n" + workers if several else workers,
        algorithm=lines["algorithm"] + form,
        label=lines["label"] + form,
        dash=lines.groupby(["task", "algorithm"])["form"].transform(lambda form: pd.factorize(form)[0]),
        round=lines.groupby(["task", "algorithm", "form", "workers"]).cumcount(),
        seed=0,  # one curve, the mean over seeds
    )


def _note(frame: pd.DataFrame, lines: pd.DataFrame, figure: Figure) -> str:
    """The text inside the picture: the runs behind the rounds, and the methods that never reach the level."""
    seeds = f"seed{'s' * has_several_seeds(frame)} {join_sorted(frame['seed'])}"
    text = f"Rounds of runs with {join_sorted(frame['workers'])} workers, {seeds}."
    never = lines.groupby("label", sort=False)["seconds_to_level"].agg(lambda seconds: seconds.isna().all())
    text += f" {', '.join(never[never].index)}: never at the level." if never.any() else ""
    return f"{figure.note}. {text}" if figure.note else text


def _caption(frame: pd.DataFrame, times: Times, network: Network) -> str:
    computing = "as measured" if network.computing is None else f"{network.computing:g} ms a round"
    how = "while messages travel" if network.overlap else "and then messages travel"
    several = (frame.groupby(["task", "algorithm"])["lr"].nunique() > 1).any()
    fastest = ", each method with the step size that is fastest there" if several else ""
    seeds = f", means over seeds {join_sorted(frame['seed'])}" if frame["seed"].nunique() > 1 else ""
    return (
        f"Modelled seconds until the {in_words(times.metric)} is seen at {times.level:g} or beyond, over the "
        f"bandwidth of every link in each direction; latency {network.latency:g} ms one way, computing {computing}, "
        f"{how}. Rounds are those of the runs with {join_sorted(frame['workers'])} workers, also where more are "
        f"modelled{seeds}{fastest}."
    )


def _judge(lines: pd.DataFrame, rounds: pd.DataFrame | None, figure: Figure, protocol: str) -> pd.DataFrame:
    """Judge the claims on modelled times, and on rounds if these were measured, one panel at a time."""
    of_rounds = [claim for claim in figure.claims if isinstance(claim.check, AsMeasured)]
    of_times = [claim for claim in figure.claims if claim not in of_rounds]
    panels = lines.assign(algorithm=lines["method"], best=True, lr=math.nan)
    parts = [claims.judge(panels, of_times).assign(step_size=protocol)]
    if rounds is not None:
        findings = claims.judge(rounds.assign(best=True, lr=math.nan), of_rounds)
        parts.append(findings.assign(step_size=claims.MEASURED))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _paying_table(lines: pd.DataFrame) -> list[str]:
    ranges = paying_range(lines).reset_index()
    if ranges.empty:
        return []
    least, most = lines["bandwidth"].min(), lines["bandwidth"].max()
    ends = ranges[["least", "greatest"]].map(lambda place: f"{float(f'{place:.2g}'):g}")
    ranges["cell"] = ends.agg(" to ".join, axis=1).where(ranges["least"].notna(), "–")
    return [
        "## Where compression pays", "",
        f"At how many Mbit/s, of {least:g} to {most:g}, a compressed method is faster than all uncompressed ones.",
        "A dash: at none.", "",
        *markdown.cross_table(ranges.assign(method=ranges["label"]), "method", "task"), "",
    ]  # fmt: skip


def _basis_table(frame: pd.DataFrame, times: Times, goal: str) -> list[str]:
    """A table with a row for each task and method: computing (ms) and bits per round, and rounds to the level.

    Cells have the least and the greatest over step sizes and seeds."""
    cells = []
    for (task, _), rows in frame.groupby(["task", "algorithm"], sort=False):
        ends = rows.sort_values("round").drop_duplicates(["lr", "seed"], keep="last")
        there = first_rows_at(rows, times.metric, times.level)
        costs = 1e3 * worker_seconds(ends) / ends["round"], ends["bits"] / ends["round"], there["round"]
        seeds = f"{there['seed'].nunique()} of {rows['seed'].nunique()}"
        cells.append([task, rows["label"].iloc[0], *map(_span, costs), seeds])
    heads = [
        "task",
        "method",
        "computing of a worker, ms a round",
        "bits a round",
        f"rounds to {goal}",
        "seeds there",
    ]
    about = "The least and the greatest over seeds and step sizes, as recorded."
    return ["## Measured costs", "", about, "", *markdown.row_table(heads, cells)]


def _span(values: Iterable[float]) -> str:
    numbers = sorted(values)
    ends = dict.fromkeys(f"{number:.4g}" for number in (numbers[0], numbers[-1])) if numbers else ["–"]
    return short_exponent(" to ".join(ends))


def read_measured(path: Path) -> pd.DataFrame:
    """Read the CSV of `benchmarks.network` for judging claims, with bandwidth in Mbit/s.

    Each number of nodes and latency becomes a task, each label and form an algorithm. `seconds_of_round` is measured.
    `modelled` is missing if there is no model."""
    rounds = pd.read_csv(path).fillna({"form": ""}).sort_values(["nodes", "latency", "bandwidth"], kind="stable")
    names = rounds["label"].str.cat(rounds["form"], sep=", ").str.removesuffix(", ")
    tasks = [f"{nodes:g} nodes, {1e3 * seconds:g} ms" for nodes, seconds in rounds[["nodes", "latency"]].to_numpy()]
    rounds = rounds.assign(
        bandwidth=rounds["bandwidth"] / 1e6, seconds_of_round=rounds["seconds"], task=tasks, algorithm=names, seed=0
    )
    return rounds.assign(round=rounds.groupby(["task", "algorithm"]).cumcount())
