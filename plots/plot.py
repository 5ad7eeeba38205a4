"""Draw a picture of existing runs.

    python -m plots.plot x=bits y=grad_norm task=logreg/a9a algorithm=cd_adam,ef21
    python -m plots.plot x=modelled_seconds network.bandwidth=10 y=test_accuracy task=digits seed=0 out=digits.pdf

x         bits | bits_up | bits_down | rounds | epochs | seconds | modelled_seconds
y         a column of metrics.jsonl, such as grad_norm, train_loss or test_accuracy
task, algorithm, seed, state      one, or several separated by commas; default: all
study     a sweep's or figure's name: only its runs
lr        best | a step size
x_scale, y_scale           log | linear; default log for bits, modelled seconds, losses, norms and errors
network.bandwidth (Mbit/s), network.latency (ms, one way), network.overlap (true: messages leave while computing)
network.computing     milliseconds a round; empty: each method's as measured
network.workers       number of workers; empty: as in the run
network.inside_bandwidth, network.inside_latency     of links inside groups of workers; empty: as between groups
network.topology      rank0 | sharded | all_gather, of compressed methods' messages; ring | tree, of the others'
width     of the picture in inches, at least 1
results_dir    the folder of the runs
out            a picture (.pdf, .png, .svg, .jpg; default <results_dir>/plots/<y>-over-<x>.png), with its
               curves as .csv beside it
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import matplotlib
import pandas as pd

from common.errors import UsageError
from plots.figure import curves
from plots.figure.spec import Panel
from plots.request import (
    NETWORK,
    PICTURES,
    choose_variants,
    open_request,
    parse_network,
    parse_positive,
    require_choice,
    write,
    write_rows,
)
from plots.runs.best import mark_best, rule_in_words
from plots.runs.columns import AXES, Axis, column, in_words, usual_scale
from plots.runs.find import CHOOSING
from plots.runs.network import modelled_seconds
from plots.runs.seeds import (
    average_costs,
    describe_axes,
    describe_hidden,
    describe_runs,
    ends_early,
    join_sorted,
    seeds_in_words,
)
from plots.runs.variants import variant_rows

NAMES: Mapping[str, Axis] = {**{name: name for name in AXES}, "rounds": "round", "epochs": "epoch"}
"""Columns by their names in requests."""

SCALES: tuple[Literal["log", "linear"], ...] = ("log", "linear")

DEFAULTS = {
    "x": "bits", "y": "grad_norm", **dict.fromkeys(CHOOSING, ""), "lr": "best", "x_scale": "", "y_scale": "",
    **NETWORK, "width": "", "results_dir": "results", "out": "",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    with open_request("plots.plot", __doc__, arguments, DEFAULTS) as request:
        name = f"{request['y']}-over-{axis(request)}.png"
        print(write(request, Path(request["results_dir"], "plots", name), dict.fromkeys(PICTURES, draw)))


def draw(request: Mapping[str, str], target: Path) -> str:
    """Draw the curves of a request, with their rows in a CSV beside the picture. Prints the caption."""
    x, y, width = axis(request), request["y"], parse_positive("width", request["width"]) if request["width"] else None
    if width and width < 1:
        raise UsageError(f"width={request['width']}: must be at least 1, in inches")
    x_scale = require_choice("x_scale", request["x_scale"] or usual_scale(x), SCALES)
    y_scale = require_choice("y_scale", request["y_scale"] or usual_scale(y), SCALES)
    lr = None if request["lr"] == "best" else parse_positive("lr", request["lr"])
    frame = choose_rows(request)
    if lr is None:
        frame = mark_best(frame)
        frame = _keep(frame, frame["best"], "no loss or gradient norm to select its step size by; give lr=")
    elif lr in set(frame["lr"]):
        frame = _keep(frame, frame["lr"] == lr, f"not run with lr={lr:g}")
    else:
        raise UsageError(f"lr={request['lr']}: no run has this step size; there are best, {join_sorted(frame['lr'])}")
    rows, frame = frame, average_costs(frame)
    if x_scale == "log":
        frame = _keep(frame, frame[x] > 0, f"no {in_words(x)} above 0; x_scale=linear shows 0")
    matplotlib.use("Agg")
    panel = Panel(x=x, y=y, x_scale=x_scale, y_scale=y_scale)
    frame = frame.assign(diverged=ends_early(frame, stopped=False))
    note = f"{describe_runs(frame)} {describe_hidden(frame, y) if y_scale == 'log' else ''}".strip()
    curves.save(curves.draw(frame, [panel], note, width), target)
    write_rows(rows.loc[frame.index], target.with_suffix(".csv"))
    rule = rule_in_words(frame) if lr is None else f"step size {request['lr']}"
    about_x = {**describe_axes(frame), "modelled_seconds": f"{parse_network(request).in_words()}."}
    print(f"Each method with {rule}; seeds {seeds_in_words(frame)}. {about_x.get(x, '')}".strip())
    return "picture"


def axis(request: Mapping[str, str]) -> Axis:
    return NAMES[require_choice("x", request["x"], NAMES)]


def choose_rows(request: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of a request's runs, of tasks that measure y if given. Prints which runs are unfinished.

    `stopped` marks rows of runs that may go on."""
    modelled, variants = parse_network(request), choose_variants(request)
    frame = variant_rows(variants)
    if request["y"]:
        columns = dict.fromkeys(name for variant in variants for name in variant.run.rows)
        metrics = [name for name in columns if column(name).filled_by != "trainer" and frame[name].notna().any()]
        y = require_choice("y", request["y"], metrics)
        frame = frame[frame.groupby("task")[y].transform("count") > 0]
    stopped = frame["run"].map({variant.run.id: not variant.run.is_over for variant in variants})
    return frame.assign(modelled_seconds=modelled_seconds(frame, modelled), stopped=stopped)


def _keep(frame: pd.DataFrame, keep: pd.Series, why: str) -> pd.DataFrame:
    """Return the rows to keep, and print which curves keep none. Raises UsageError if no row is left."""
    if not keep.any():
        raise UsageError(f"nothing to draw: {why}")
    curve = ["task", "algorithm", "label"]
    gone = frame[~keep.groupby([frame[key] for key in curve]).transform("any")]
    for task, _, label in gone[curve].drop_duplicates().itertuples(index=False):
        print(f"{label} on {task} is left out: {why}")
    return frame[keep]


if __name__ == "__main__":
    main()
