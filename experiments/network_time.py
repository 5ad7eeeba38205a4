"""Model the training time of existing runs on other networks: seconds to a level, by bandwidth and number of workers.

    python -m experiments.network_time task=cifar10/resnet18 y=train_loss level=1.5
    python -m experiments.network_time study=first y=grad_norm level=0.01 network.bandwidth=100,1000

y           a column of metrics.jsonl; level: the value to reach
network.bandwidth     of every link in Mbit/s, several separated by commas
network.workers       the number of workers, several separated by commas
network.topology      rank0 | sharded | all_gather for compressed methods, with ring for the others; or ring | tree
                      for the others, with sharded for compressed methods; several separated by commas
network.latency       in milliseconds, one way
network.overlap       true: messages leave while the backward pass runs
network.computing     milliseconds per round; empty: as measured for each method
network.inside_bandwidth, network.inside_latency     of links inside groups of workers; empty: as between groups
task, algorithm, seed, study      choose among the runs, several separated by commas
results_dir     where the runs lie

Nothing is trained. Bits and rounds come from the runs, at their own number of workers. Computing time is one worker's
share of the measured time (docs/reports.md has the formulas). Each method has its fastest step size on that network.
Lines below the table give the bandwidths at which each compressed method beats every uncompressed one.
"""

import math
from collections.abc import Sequence

from rich.console import Console

from common import tables
from common.errors import UsageError
from plots.request import NETWORK, choose_variants, open_request, parse_network, parse_positive, require_choice
from plots.runs.columns import column
from plots.runs.find import CHOOSING
from plots.runs.network import paying_range, seconds_to
from plots.runs.variants import variant_rows

DEFAULTS = {
    **dict.fromkeys(CHOOSING, ""), "y": "train_loss", "level": "", **NETWORK,
    "network.bandwidth": "10,100,1000,10000,100000", "network.workers": "8,64,1024", "results_dir": "results",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    with open_request("experiments.network_time", __doc__, arguments, DEFAULTS) as request:
        show(request, Console(soft_wrap=True, highlight=False, markup=False))


def show(request: dict[str, str], console: Console) -> None:
    """Print the tables of a request, one per task, below the names of unfinished runs.

    Raises UsageError for wrong keys or values, and ValueError if there are no whole runs.
    """
    if not request["level"]:
        raise UsageError("level=: give the value of y to reach, such as y=test_accuracy level=0.9")
    level = parse_positive("level", request["level"])
    networks = [
        parse_network({**request, "network.workers": n, "network.bandwidth": bandwidth, "network.topology": topology})
        for n in request["network.workers"].split(",")
        for bandwidth in request["network.bandwidth"].split(",")
        for topology in request["network.topology"].split(",")
    ]
    variants = choose_variants(request)
    frame = variant_rows(variants)
    measured = dict.fromkeys(name for variant in variants for name in variant.run.rows)
    y = require_choice("y", request["y"], [name for name in measured if column(name).filled_by == "task"])
    frame = frame[frame[y].notna()]
    for task, rows in frame.groupby("task", sort=False):
        times = seconds_to(rows, y, level, networks)
        times["label"] += ", " + times["form"]
        console.print(f"{task}: seconds to {y} {level:g}")
        wide = times.pivot(index=["workers", "bandwidth"], columns="label", values="seconds_to_level")
        wide = wide[[*dict.fromkeys(times["label"])]].reset_index()
        wide = wide.map(lambda value: "–" if math.isnan(value) else f"{value:.4g}")
        tables.print_table(console, ["workers", "Mbit/s", *wide.columns[2:]], wide.to_numpy().tolist())
        for _, label, workers, least, greatest in paying_range(times).reset_index().itertuples(index=False):
            where = "at none of these" if math.isnan(least) else f"from {least:g} to {greatest:g} Mbit/s"
            console.print(f"{label}, {workers} workers: faster than every uncompressed method {where}")


if __name__ == "__main__":
    main()
