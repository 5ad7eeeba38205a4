"""Rounds on links of a given rate and latency, against PyTorch's DistributedDataParallel and against the model.

    python -m benchmarks.network          2 and 4 nodes on every link: writes benchmarks/results/network.md and .csv
    python -m benchmarks.network short    2 nodes on the links without a latency of their own, printed alone

A rank a node, over gloo, between network namespaces of this machine whose links `tc` shapes (`benchmarks.links`).
For Linux, as root, with iproute2; otherwise this says what is missing, and ends.

round      the median over all rounds of some turns, in which contestants follow one another
× DDP      how many times as long a round of DDP takes in the same turns
model      computing + (f_up · bits_up + f_down · bits_down) / bandwidth + hops · latency, as `plots.runs.network` has
           it, given the bits of a round, the link as it was measured, and as computing a round on links not shaped
to a loss  rounds to that loss, counted once, times the seconds of a round; DDP's by the contestant's
"""

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import links
from benchmarks.contestants import BATCH, CONTESTANTS, Contestant, mlp
from common.errors import RunError, exit_with_message
from experiments.record.environment import environment, versions
from plots.runs.network import FORMS

BANDWIDTHS = (100, 1000, 10_000)  # Mbit/s
OWN_LATENCY = 0.1  # ms, about what namespaces have without any added
LATENCIES = (OWN_LATENCY, 5)  # ms
NODES = (2, 4)
LOSS, MOST_ROUNDS, EVERY = 0.1, 400, 10
TURNS, TURN = 5, 0.5  # s
D = sum(parameter.numel() for parameter in mlp().parameters())
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Link:
    """As it was measured: bit/s, and seconds one way."""

    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Point:
    """A contestant's round on a link, nominally of so many Mbit/s and ms: seconds, also those on links not shaped."""

    contestant: Contestant
    nodes: int
    bandwidth: float
    latency: float
    link: Link
    computing: float
    seconds: float
    bits: tuple[float, float]

    @property
    def measure(counts: Sequence[int], latencies: Sequence[float]) -> tuple[list[Point], dict[int, list[float]]]:
    """All points, and by number of nodes the rounds that every contestant takes to the loss."""
    points: list[Point] = []
    rounds: dict[int, list[float]] = {}
    for count in counts:
        computing: list[float] = []
        for latency in latencies:
            with session(count, latency) as one:
                if not computing:  # the first latency is that of links not shaped
                    rounds[count] = one.rounds_to_loss()
                    computing = [seconds for seconds, _ in one.rounds()]
                for bandwidth in BANDWIDTHS:
                    one.nodes.shape(bandwidth)
                    link = one.link()
                    points += [
                        Point(contestant, count, bandwidth, latency, link, alone, seconds, bits)
                        for contestant, alone, (seconds, bits) in zip(CONTESTANTS, computing, one.rounds(), strict=True)
                    ]
                print(f"{count} nodes, {latency:g} ms: measured", file=sys.stderr)
    return points, rounds


def report(points: Sequence[Point], rounds: Mapping[int, Sequence[float]]) -> str:
    """Markdown: what it was measured on, rounds by nodes and latency, and the way to the loss."""
    here = environment()
    lines = [
        f"Of {date.today()}: {here['processor']}, {here['cores']} cores, load {os.getloadavg()[0]:.1f}, torch "
        f"{versions()['torch']} over gloo. A network of {D:,} parameters, {BATCH} images a node and round."
    ]
    for (nodes, latency), group in _by(points, lambda p: (p.nodes, p.latency)).items():
        by_bandwidth = _by(group, lambda p: p.bandwidth)
        said = "; ".join(
            f"{bandwidth:g} Mbit/s are {own[0].link.bandwidth / 1e6:.0f} and {own[0].link.latency * 1e3:.2f} ms"
            for bandwidth, own in by_bandwidth.items()
        )
        lines += ["", f"## {nodes} nodes, {latency:g} ms", "", f"As measured, {said}.", ""]
        lines += _head(["", "not shaped, ms", *(f"{b:g} Mbit/s, ms | × DDP | model" for b in by_bandwidth)])
        for own in _by(group, lambda p: p.contestant.name).values():
            cells = [own[0].contestant.name, f"{own[0].computing * 1e3:.0f}"]
            for point, first in zip(own, (of_link[0] for of_link in by_bandwidth.values()), strict=True):
                error = "–" if math.isnan(point.error) else f"{point.error:+.0%}"
                cells += [f"{point.seconds * 1e3:.0f}", f"{first.seconds / point.seconds:.2f}", error]
            lines.append(_row(cells))
    for nodes, group in _by(points, lambda p: p.nodes).items():
        by_link = _by(group, lambda p: (p.latency, p.bandwidth))
        lines += ["", f"## To a loss of {LOSS:g}, {nodes} nodes: × DDP", ""]
        lines += _head(["", "rounds", *(f"{bandwidth:g} Mbit/s, {latency:g} ms" for latency, bandwidth in by_link)])
        for contestant, mine in zip(CONTESTANTS, rounds[nodes], strict=True):
            own = [point for point in group if point.contestant is contestant]
            ratios = [
                rounds[nodes][0] * of_link[0].seconds / (mine * point.seconds)
                for point, of_link in zip(own, by_link.values(), strict=True)
            ]
            cells = [f"{ratio:.2f}" for ratio in ratios] if mine < math.inf else ["–"] * len(ratios)
            lines.append(_row([contestant.name, f"{mine:.0f}" if mine < math.inf else f"> {MOST_ROUNDS}", *cells]))
    modelled = [abs(point.error) for point in points if not math.isnan(point.error)]
    within = sum(error <= 0.2 for error in modelled)
    lines += ["", f"The model is within 20 % of {within} of {len(modelled)} rounds; at most {max(modelled):.0%} off."]
    return "\n".join(lines) + "\n"


def _by(points: Iterable[Point], key: Callable[[Point], Any]) -> dict[Any, list[Point]]:
    """In groups, in the order in which they first come."""
    groups: dict[Any, list[Point]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups


def _head(names: Sequence[str]) -> list[str]:
    line = _row(names)
    return [line, "|" + "---|" * (line.count("|") - 1)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(points: Iterable[Point], path: Path) -> None:
    """A line a point, in bit/s and seconds: what `figure=bandwidth` draws."""
    lines = [
        {
            "label": point.contestant.label,
            "form": point.contestant.form,
            "nodes": point.nodes,
            "bandwidth": point.bandwidth * 1e6,
            "latency": point.latency / 1e3,
            "seconds": point.seconds,
            "modelled": point.modelled,
        }
        for point in points
    ]
    pd.DataFrame(lines).to_csv(path, index=False, float_format="%.6g")


def main() -> None:
    """The command line above."""
    try:
        links.check()
    except links.NotHere as reason:
        print(f"not measured: {reason}")
        return
    is_short = sys.argv[1:] == ["short"]
    points, rounds = measure(NODES[:1], LATENCIES[:1]) if is_short else measure(NODES, LATENCIES)
    text = report(points, rounds)
    print(text, end="")
    if not is_short:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "network.md").write_text(f"# Rounds on shaped links\n\n{text}")
        write(points, RESULTS / "network.csv")


if __name__ == "__main__":
    with exit_with_message():
        main()
