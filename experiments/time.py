"""What a finished study would take on other networks: seconds to a level, over bandwidths and numbers of workers.

    python -m experiments.time task=cifar10/resnet18 y=train_loss level=1.5
    python -m experiments.time study=first y=grad_norm level=0.01 network.topology=rank0 network.bandwidth=100,1000

y           a column of metrics.jsonl; level: the value that is to be reached
network.bandwidth     of every link in Mbit/s, several separated by commas
network.latency       in milliseconds, one way
network.workers       how many there would be, several separated by commas
network.topology      rank0 | sharded | all_gather, of compressed methods' messages; ring | tree, of the others';
                      several separated by commas
network.overlap       true: messages leave while the backward pass runs
task, algorithm, seed, study      choose among the runs, several separated by commas
results_dir     where the runs lie

Nothing is trained: computing is what was measured, a worker's own share, bits are those counted, and rounds those
that it took with the run's own number of workers (docs/reports.md has the formulas). Each method has the step size
that is the fastest on that network. Below the table stands up to which of these bandwidths each compressed method is
faster than every uncompressed one.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from common import tables
from common.errors import UsageError
from plots.request import answering, chosen, parse, positive, words
from plots.runs.columns import column
from plots.runs.find import CHOOSING, find, select, whole, with_rows
from plots.runs.network import FORMS, OF_COMPRESSED, Network, pays_up_to, seconds_to
from plots.runs.variants import settled, table, tell_apart

DEFAULTS = {
    **dict.fromkeys(CHOOSING, ""), "y": "train_loss", "level": "", "bandwidth": "10,100,1000,10000,100000",
    "latency": "1", "workers": "8,64,1024", "form": "sharded", "uncompressed": "ring", "overlap": "false",
    "results_dir": "results",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    given = words("experiments.time", __doc__, arguments)
    with answering():
        show(parse(given, DEFAULTS), Console(soft_wrap=True, highlight=False, markup=False))


def show(request: dict[str, str], console: Console) -> None:
    """Print the tables of a request, one a task.

    Raises UsageError for what is not there or not understood, and ValueError where there are no whole runs.
    """
    if not request["level"]:
        raise UsageError("level=: give the value of y that is to be reached, such as y=test_accuracy level=0.9")
    level = positive("level", request["level"], "what y is measured in")
    networks = [
        Network(
            workers=int(positive("workers", workers, "workers")),
            bandwidth=positive("bandwidth", bandwidth, "Mbit/s"),
            latency=positive("latency", request["latency"], "milliseconds", zero=True),
            form=chosen("form", request["form"], OF_COMPRESSED),
            uncompressed=chosen(
                "uncompressed", request["uncompressed"], [name for name in FORMS if name != "all_gather"]
            ),
            overlap=chosen("overlap", request["overlap"], ("true", "false")) == "true",
        )
        for workers in request["workers"].split(",")
        for bandwidth in request["bandwidth"].split(",")
    ]
    place = Path(request["results_dir"])
    runs = whole(select(with_rows(find(place)), place, **{key: request[key] for key in CHOOSING}))
    if not runs:
        raise ValueError(f"{place}: no whole run among those chosen; start one with python -m experiments.run")
    frame = table(settled(tell_apart(runs)))
    y = chosen("y", request["y"], [name for name in map(str, frame) if column(name).filled_by == "task"])
    for task, rows in frame[frame[y].notna()].groupby("task", sort=False):
        times = seconds_to(rows, y, level, networks)
        console.print(f"{task}: seconds to {y} {level:g}")
        wide = times.pivot(index=["workers", "bandwidth"], columns="label", values="seconds")
        wide = wide[list(dict.fromkeys(times["label"]))]
        cells = zip(wide.index, wide.to_numpy(), strict=True)
        lines = [[*(f"{number:g}" for number in network), *map(_cell, line)] for network, line in cells]
        tables.show(console, ["workers", "Mbit/s", *wide.columns], lines)
        for (label, workers), bandwidth in pays_up_to(times).items():
            until = "at none of these" if bandwidth is None else f"up to {bandwidth:g} Mbit/s"
            console.print(f"{label}, {workers} workers: faster than every uncompressed method {until}")


def _cell(seconds: float) -> str:
    return "–" if seconds != seconds else f"{seconds:.4g}"  # NaN: not reached


if __name__ == "__main__":
    main()
