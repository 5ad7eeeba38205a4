"""A picture of runs that are there.

    python -m plots.plot x=bits y=grad_norm task=logreg/a9a algorithm=cd_adam,ef21
    python -m plots.plot x=modelled_seconds bandwidth=10 y=test_accuracy task=digits seed=0 out=digits.pdf

x         bits | bits_up | bits_down | rounds | epochs | seconds | modelled_seconds
y         a column of metrics.jsonl, such as grad_norm, train_loss or test_accuracy
task, algorithm, seed, state      one, or several separated by commas; all that are there unless said
study     a sweep's or figure's name, whose runs alone are meant
lr        best | a step size
x_scale, y_scale           log | linear; bits, modelled seconds and everything but accuracies are log unless said
bandwidth (Mbit/s), latency (ms, one way), shared_link (true: the server has one link for all workers)
results_dir    where the runs lie
out            the picture, of a type that matplotlib can write; <results_dir>/plots/<request>.png unless said
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from common import tables
from common.errors import UsageError
from plots.figure import curves
from plots.figure.spec import Panel
from plots.request import answering, chosen, parse, positive, words
from plots.runs.best import mark_best, rule_in_words
from plots.runs.columns import axes, column, higher_is_better, in_words, usual_scale
from plots.runs.find import CHOOSING, find, select, whole, with_rows
from plots.runs.seeds import in_order, over_seeds, repeated
from plots.runs.time_model import Link, at_mean_times, modelled_seconds
from plots.runs.variants import settled, table, tell_apart

AXES = {name: name for name in (*axes(), "modelled_seconds")} | {"rounds": "round", "epochs": "epoch"}
"""Columns by what a request calls them."""

SCALES: tuple[Literal["log", "linear"], ...] = ("log", "linear")

DEFAULTS = {
    "x": "bits", "y": "grad_norm", **dict.fromkeys(CHOOSING, ""), "lr": "best", "x_scale": "", "y_scale": "",
    "bandwidth": "100", "latency": "1", "shared_link": "true", "results_dir": "results", "out": "",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    request = words("plots.plot", __doc__, arguments)
    with answering():
        plot(parse(request, DEFAULTS), Console(soft_wrap=True, highlight=False, markup=False))


def plot(request: dict[str, str], console: Console) -> Path:
    """Draw what a request with all keys of DEFAULTS asks for, and show the picture's path and the curves' ends.

    What is damaged is left out with a notice on standard error. Raises UsageError for what is not there or not
    understood, and ValueError where nothing whole is, or seeds were not evaluated at the same rounds.
    """
    x, y = AXES[chosen("x", request["x"], AXES)], request["y"]
    x_scale = chosen("x_scale", request["x_scale"] or usual_scale(x), SCALES)
    y_scale = chosen("y_scale", request["y_scale"] or ("linear" if higher_is_better(y) else "log"), SCALES)
    target = Path(request["out"] or _name(request, x))
    chosen("out's type", target.suffix[1:], FigureCanvasAgg.filetypes)
    frame = _curves(request, console)
    link = Link(
        bandwidth=positive("bandwidth", request["bandwidth"], "Mbit/s"),
        latency=positive("latency", request["latency"], "milliseconds", zero=True),
        shared=chosen("shared_link", request["shared_link"], ("true", "false")) == "true",
    )
    frame = at_mean_times(frame.assign(modelled_seconds=modelled_seconds(frame, link)))
    if x_scale == "log":
        frame = _kept(frame, frame[x] > 0, f"no {in_words(x)} above 0; x_scale=linear has a place for 0", console)
    matplotlib.use("Agg")
    panel = Panel(x=x, y=y, x_scale=x_scale, y_scale=y_scale)
    curves.save(curves.draw(frame, [panel], _caption(request, x, frame)), target)
    if request["lr"] == "best":
        console.print(f"each method with {rule_in_words(frame)}")
    _show_ends(frame, y, y_scale == "log", console)
    console.print(f"picture: {target}")
    return target


def _curves(request: dict[str, str], console: Console) -> pd.DataFrame:
    """The rows of the curves to draw, one trial per task, variant of a method and seed."""
    place, y = Path(request["results_dir"]), request["y"]
    runs = with_rows(find(place))
    if not runs:
        raise ValueError(f"{place}: no runs there; start one with python -m experiments.run results_dir={place}")
    runs = whole(select(runs, place, **{key: request[key] for key in CHOOSING}))
    if not runs:
        raise ValueError(f"{place}: no whole run among those chosen; see above")
    variants = settled(tell_apart(runs))
    for variant in variants:
        if not variant.run.is_finished:
            reached = f"round {variant.run.round} of {variant.run.rounds}"
            console.print(f"{variant.label} on {variant.run.task} is not finished, drawn up to {reached}")
    frame = table(variants)
    columns = dict.fromkeys(name for variant in variants for name in variant.run.columns)
    chosen("y", y, [name for name in columns if column(name).filled_by != "trainer" and frame[name].notna().any()])
    frame = frame[frame.groupby("task")[y].transform("count") > 0]
    if request["lr"] == "best":
        frame = mark_best(frame)
        return _kept(frame, frame["best"], "no loss or gradient norm to select its step size by; give lr=", console)
    lr = positive("lr", request["lr"], "steps")
    if lr not in set(frame["lr"]):
        raise UsageError(f"lr={request['lr']}: no run has this step size; there are best, {in_order(frame['lr'])}")
    return _kept(frame, frame["lr"] == lr, f"not run with lr={lr:g}", console)


def _kept(frame: pd.DataFrame, keep: pd.Series, why: str, console: Console) -> pd.DataFrame:
    """The rows to keep; says which curves keep none. Raises UsageError where nothing is left."""
    if not keep.any():
        raise UsageError(f"nothing to draw: {why}")
    curve = ["task", "algorithm", "label"]
    gone = frame[~keep.groupby([frame[key] for key in curve]).transform("any")]
    for task, _, label in gone[curve].drop_duplicates().itertuples(index=False):
        console.print(f"{label} on {task} is left out: {why}")
    return frame[keep]


def _name(request: dict[str, str], x: str) -> Path:
    """Where the picture goes unless said: named by everything that was asked for, cut where that is too long."""
    by_value, others = ("task", "algorithm", "seed"), ("x", "y", "results_dir", "out")
    settings = [key for key in DEFAULTS if key not in (*by_value, *others) and request[key] != DEFAULTS[key]]
    parts = [f"{request['y']}-over-{x}", *(request[key] for key in by_value if request[key])]
    name = "-".join([*parts, *(f"{key}={request[key]}" for key in settings)]).replace("/", "_")
    if len(name.encode()) > 200:  # file systems take 255 bytes
        name = f"{name[:48]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return Path(request["results_dir"], "plots", f"{name}.png")


def _caption(request: dict[str, str], x: str, frame: pd.DataFrame) -> str:
    """What the curves are, in words."""
    rule = rule_in_words(frame) if request["lr"] == "best" else f"step size {request['lr']}"
    mean = "means over seeds, in bands from the least to the greatest; seeds" if repeated(frame) else "seed"
    server = "the server's link is shared by all workers." if request["shared_link"] == "true" else "a link a worker."
    about_x = {
        "bits": " Bits are those of one worker, both directions.",
        "seconds": " Seconds are those measured, for all workers and all step sizes of a run.",
        "modelled_seconds": f" {request['bandwidth']} Mbit/s, {request['latency']} ms one way; {server}",
    }
    return f"Each method with {rule} ({mean} {in_order(frame['seed'])}).{about_x.get(x, '')}"


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
