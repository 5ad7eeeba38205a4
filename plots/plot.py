"""A picture of runs that are there.

    python -m plots.plot x=bits y=grad_norm task=logreg/a9a algorithm=cd_adam,ef21
    python -m plots.plot x=modelled_seconds bandwidth=10 y=test_accuracy task=digits seed=0 out=digits.pdf

x         bits | rounds | epochs | seconds | modelled_seconds
y         a column of metrics.jsonl, such as grad_norm, train_loss or test_accuracy
task, algorithm, seed, state      one, or several separated by commas; all that are there unless said
study     a sweep's or figure's name, whose runs alone are meant
lr        best | a step size
x_scale, y_scale           log | linear; bits, modelled seconds and everything but accuracies are log unless said
bandwidth (Mbit/s), latency (ms, one way), shared_link (true: the server has one link for all workers)
results_dir    where the runs lie
out            the picture, of a type that matplotlib can write; <results_dir>/plots/<request>.png unless said
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from common import tables
from common.errors import UsageError
from common.names import unknown
from plots.figure import curves
from plots.figure.spec import Panel
from plots.request import answering, chosen, parse, positive, words
from plots.runs.best import mark_best, rule_in_words
from plots.runs.columns import axes, column, higher_is_better, in_words
from plots.runs.find import CHOOSING, find, select, with_rows
from plots.runs.seeds import over_seeds, repeated
from plots.runs.time_model import Link, at_mean_times, modelled_seconds
from plots.runs.variants import Variant, settled, tell_apart

AXES = {name: name for name in (*axes(), "modelled_seconds")} | {"rounds": "round", "epochs": "epoch"}
"""Columns by what a request calls them."""

SCALES: dict[str, Literal["linear", "log"]] = {"log": "log", "linear": "linear"}

DEFAULTS = {
    "x": "bits", "y": "grad_norm", **dict.fromkeys(CHOOSING, ""), "lr": "best", "x_scale": "", "y_scale": "",
    "bandwidth": "100", "latency": "1", "shared_link": "true", "results_dir": "results", "out": "",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    request = words("plots.plot", __doc__, arguments)
    with answering():
        plot(parse(request, DEFAULTS), Console())


def plot(request: dict[str, str], console: Console) -> Path:
    """Draw what a request with all keys of DEFAULTS asks for, and show the picture's path and the curves' ends.

    Raises UsageError for what is not there or not understood, ValueError for a damaged folder, or where seeds were
    not evaluated at the same rounds.
    """
    x = AXES[chosen("x", request["x"], AXES)]
    scales: dict[str, Literal["linear", "log"]] = {
        key: SCALES[chosen(key, request[key] or usual, SCALES)] for key, usual in _scales(x, request["y"])
    }
    panel = Panel(x=x, y=request["y"], x_scale=scales["x_scale"], y_scale=scales["y_scale"])
    target = Path(request["out"] or _name(request, x))
    if target.suffix[1:] not in FigureCanvasAgg.filetypes:
        types = FigureCanvasAgg.filetypes
        raise UsageError(unknown(f"out={target}: no such type of file", target.suffix[1:], types))
    frame = _curves(request, console)
    frame = at_mean_times(frame.assign(modelled_seconds=modelled_seconds(frame, _link(request))))
    if panel.x_scale == "log":
        frame = _kept(frame, frame[x] > 0, f"no {in_words(x)} above 0; x_scale=linear has a place for 0", console)
    matplotlib.use("Agg")
    figure = curves.draw(frame, [panel], _caption(request, x, frame))
    target.parent.mkdir(parents=True, exist_ok=True)
    with plt.style.context(curves.STYLE):
        figure.savefig(target)
    plt.close(figure)
    if request["lr"] == "best":
        console.print(f"each method with {rule_in_words(frame)}", soft_wrap=True, highlight=False)
    _show_ends(frame, request["y"], panel.y_scale == "log", console)
    console.print(f"picture: {target}", soft_wrap=True, highlight=False)
    return target


def _curves(request: dict[str, str], console: Console) -> pd.DataFrame:
    """The rows of the curves to draw, one trial per task, variant of a method and seed."""
    place, y = Path(request["results_dir"]), request["y"]
    runs = with_rows(find(place))
    if not runs:
        raise ValueError(f"{place}: no runs there; start one with python -m experiments.run results_dir={place}")
    variants = settled(tell_apart(select(runs, place, **{key: request[key] for key in CHOOSING})))
    for variant in variants:
        if not variant.run.is_finished:
            reached = f"round {variant.run.round} of {variant.run.config['rounds']}"
            console.print(f"{variant.label} on {variant.run.task} is not finished, drawn up to {reached}")
    frame = pd.concat([variant.frame() for variant in variants], ignore_index=True)
    measured = [name for name in _measured(variants) if frame[name].notna().any()]
    chosen("y", y, measured)
    frame = frame[frame.groupby("task")[y].transform("count") > 0]
    if request["lr"] == "best":
        frame = mark_best(frame)
        return _kept(frame, frame["best"], "no loss or gradient norm to select its step size by; give lr=", console)
    lr = positive("lr", request["lr"], "steps")
    if lr not in set(frame["lr"]):
        there = ", ".join(f"{some:g}" for some in sorted(set(frame["lr"])))
        raise UsageError(f"lr={request['lr']}: no run has this step size; there are best, {there}")
    return _kept(frame, frame["lr"] == lr, f"not run with lr={lr:g}", console)


def _kept(frame: pd.DataFrame, keep: pd.Series, why: str, console: Console) -> pd.DataFrame:
    """The rows to keep; says which curves keep none. Raises UsageError where nothing is left."""
    if not keep.any():
        raise UsageError(f"nothing to draw: {why}")
    curve = ["task", "algorithm", "label"]
    gone = frame[~keep.groupby([frame[key] for key in curve]).transform("any")]
    for task, _, label in gone[curve].drop_duplicates().itertuples(index=False):
        console.print(f"{label} on {task} is left out: {why}", soft_wrap=True, highlight=False, markup=False)
    return frame[keep]


def _measured(variants: list[Variant]) -> list[str]:
    """The columns that y can be."""
    columns = dict.fromkeys(name for variant in variants for name in variant.run.columns)
    return [name for name in columns if column(name).filled_by != "trainer"]


def _scales(x: str, y: str) -> tuple[tuple[str, str], ...]:
    """What the scales are unless said."""
    return (
        ("x_scale", "log" if x in ("bits", "modelled_seconds") else "linear"),
        ("y_scale", "linear" if higher_is_better(y) else "log"),
    )


def _link(request: dict[str, str]) -> Link:
    return Link(
        bandwidth=positive("bandwidth", request["bandwidth"], "Mbit/s"),
        latency=positive("latency", request["latency"], "milliseconds", zero=True),
        shared=chosen("shared_link", request["shared_link"], ("true", "false")) == "true",
    )


def _name(request: dict[str, str], x: str) -> Path:
    """Where the picture goes unless said: named by everything that was asked for, cut where that is too long."""
    chosen_by = ("task", "algorithm", "seed")
    others = [key for key in DEFAULTS if key not in ("x", "y", *chosen_by, "results_dir", "out")]
    settings = [f"{key}={request[key]}" for key in others if request[key] != DEFAULTS[key]]
    parts = [f"{request['y']}-over-{x}", *(request[key] for key in chosen_by), *settings]
    name = "-".join(part for part in parts if part).replace("/", "_")
    if len(name.encode()) > 200:  # file systems take 255 bytes
        name = f"{name[:48]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return Path(request["results_dir"], "plots", f"{name}.png")


def _caption(request: dict[str, str], x: str, frame: pd.DataFrame) -> str:
    """What the curves are, in words."""
    chosen_by = f"with step size {request['lr']}"
    if request["lr"] == "best":
        chosen_by = f"with {rule_in_words(frame)}"
    seeds = ", ".join(str(seed) for seed in sorted(frame["seed"].unique()))
    mean = "means over seeds, in bands from the least to the greatest; seeds" if repeated(frame) else "seed"
    about_x = {
        "bits": " Bits are those of one worker, both directions.",
        "seconds": " Seconds are those measured, for all workers and all step sizes of a run.",
        "modelled_seconds": f" {request['bandwidth']} Mbit/s, {request['latency']} ms one way; "
        + ("the server's link is shared by all workers." if request["shared_link"] == "true" else "a link a worker."),
    }
    return f"Each method {chosen_by} ({mean} {seeds}).{about_x.get(x, '')}"


def _show_ends(frame: pd.DataFrame, y: str, geometric: bool, console: Console) -> None:
    """Where each curve ends; of several seeds the mean that is drawn."""
    lines = []
    for (task, _), rows in frame.groupby(["task", "algorithm"], sort=False):
        last = rows[rows["round"] == rows["round"].max()]
        end = over_seeds(last, "round", y, geometric)["mean"].iloc[0]
        cells = (last["lr"].iloc[0], end, last["round"].iloc[0], last["bits"].iloc[0])
        lines.append([task, last["label"].iloc[0], *(f"{value:.6g}" for value in cells)])
    tables.show(console, ["task", "method", "step size", in_words(y), "round", "bits"], lines)


if __name__ == "__main__":
    main()
