"""Rounds on links of a given rate and latency, compared with DistributedDataParallel and with the model.

    python -m benchmarks.network              2 nodes, 0.1 ms: printed
    python -m benchmarks.network long=true    2 and 4 nodes, 0.1 and 5 ms: writes results/network.md and .csv here

One rank per node, over gloo, between network namespaces with shaped links (`benchmarks.links`). For Linux, as root,
with iproute2.

round      the mean of a few rounds, in the shortest of several turns; in each turn every contestant has a few
× DDP      the time of DDP's round divided by this one
model      computing + (f_up · bits_up + f_down · bits_down) / bandwidth + hops · latency, as in `plots.runs.network`,
           with the bits of a round; computing is a round on unshaped links
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date
from itertools import product
from pathlib import Path

import pandas as pd
import torch
from rich.filesize import decimal

from benchmarks import links
from benchmarks.contestants import BATCH, D
from common.errors import RunError, exit_with_message
from experiments.run_store.environment import environment
from plots.figure.markdown import row_table
from plots.request import parse, parse_words, require_choice
from plots.runs.network import FORMS

OWN_LATENCY = 0.1  # ms, about the namespaces' own
LATENCIES = (OWN_LATENCY, 5)  # ms
BANDWIDTHS = (100, 1000, 10_000)  # Mbit/s
NODES = (2, 4)
RESULTS = Path(__file__).parent / "results"


def measure(count: int, bandwidth: float | None, latency: float, turns: int) -> pd.DataFrame:
    """Return the rows of `benchmarks.network_rank` on `count` nodes. bandwidth: Mbit/s of links (None: not shaped).
    latency: milliseconds one way."""
    with ExitStack() as stack:
        nodes = stack.enter_context(links.connect_nodes(count, bandwidth, 0 if latency == OWN_LATENCY else latency))
        ranks = []
        for number, name in enumerate(nodes):
            env = {
                "RANK": str(number), "WORLD_SIZE": str(count), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": links.address(0), "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            command = ["ip", "netns", "exec", name, sys.executable, "-m", "benchmarks.network_rank", str(turns)]
            process = subprocess.Popen(command, text=True, env={**os.environ, **env}, stdout=subprocess.PIPE)
            ranks.append(stack.enter_context(process))
        outputs = [rank.communicate()[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise RunError("a rank ended early; see its output above")
    print(f"{count} nodes, {bandwidth or 'unshaped'} Mbit/s, {latency:g} ms: measured", file=sys.stderr)
    bits = bandwidth and bandwidth * 1e6
    return pd.DataFrame(json.loads(outputs[0])).assign(nodes=count, bandwidth=bits, latency=latency / 1e3)


def model_seconds(rows: pd.DataFrame) -> pd.Series:
    """Return the model's seconds; NaN if no form of `plots.runs.network` describes the exchange."""
    seconds = []
    for row in rows.itertuples():
        up, down, hops = FORMS[row.form](row.nodes, row.nodes, row.exchanges) if row.form in FORMS else [math.nan] * 3
        sending = (up * row.bits_up + down * row.bits_down) / row.bandwidth
        seconds.append(row.computing + sending + hops * row.latency)
    return pd.Series(seconds, rows.index)


def report(rows: pd.DataFrame, load: float) -> str:
    """Return Markdown: the machine and its load before, a line per row, and the model's errors."""
    here, memory = environment(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    ddp = rows.groupby(["nodes", "latency", "bandwidth"])["seconds"].transform("first")
    error = rows["modelled"] / rows["seconds"] - 1
    columns = {
        "nodes": rows["nodes"],
        "ms": (rows["latency"] * 1e3).map("{:g}".format),
        "Mbit/s": (rows["bandwidth"] / 1e6).map("{:g}".format),
        "method": rows["label"] + ("; " + rows["form"]).fillna(""),
        "computing, ms": (rows["computing"] * 1e3).map("{:.0f}".format),
        "round, ms": (rows["seconds"] * 1e3).map("{:.0f}".format),
        "× DDP": (ddp / rows["seconds"]).map("{:.2f}".format),
        "model": error.map("{:+.0%}".format, na_action="ignore").fillna("–"),
    }
    table = "\n".join(row_table(list(columns), pd.DataFrame(columns).astype(str).to_numpy()))
    known = error.dropna().abs()
    return (
        f"{date.today()}, {here['processor']}, {here['cores']} cores, {decimal(memory)} of memory, torch "
        f"{torch.__version__}, load {load:.1f} before; gloo, a network of {D:,} parameters, {BATCH} images a node "
        f"and round.\n\n{table}\n\nThe model is within 20 % of {(known <= 0.2).sum()} of {len(known)} rounds, and "
        f"at most {known.max():.0%} off.\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    request = parse(parse_words("benchmarks.network", __doc__, arguments), {"long": "false"})
    is_long = require_choice("long", request["long"], ("true", "false")) == "true"
    load = os.getloadavg()[0]
    counts, latencies, turns = (NODES, LATENCIES, 3) if is_long else (NODES[:1], LATENCIES[:1], 2)
    measured = []
    for count in counts:
        # Computing depends neither on bandwidth nor on latency.
        computing = measure(count, None, OWN_LATENCY, turns)["seconds"]
        for latency, bandwidth in product(latencies, BANDWIDTHS):
            measured.append(measure(count, bandwidth, latency, turns).assign(computing=computing))
    rows = pd.concat(measured, ignore_index=True)
    rows["modelled"] = model_seconds(rows)
    text = report(rows, load)
    print(text, end="")
    if is_long:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "network.md").write_text(f"# Rounds on shaped links\n\n{text}")
        drawn = ["label", "form", "nodes", "bandwidth", "latency", "seconds", "modelled"]  # by figure=bandwidth
        rows[drawn].to_csv(RESULTS / "network.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    with exit_with_message():
        main()
