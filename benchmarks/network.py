"""Rounds on links of a given rate and latency, against PyTorch's DistributedDataParallel and against the model.

    python -m benchmarks.network              2 nodes, 0.1 ms: printed
    python -m benchmarks.network long=true    2 and 4 nodes, 0.1 and 5 ms: writes results/network.md and .csv here

A rank a node, over gloo, between network namespaces of this machine whose links `tc` shapes (`benchmarks.links`).
For Linux, as root, with iproute2; otherwise this says what is missing, and ends.

round      the mean of a few, of the shortest of some turns, in each of which every contestant has a few on every link
× DDP      how many times as long a round of DDP takes
model      computing + (f_up · bits_up + f_down · bits_down) / bandwidth + hops · latency, as `plots.runs.network` has
           it, given the bits of a round, the link as it was measured, and as computing a round on links not shaped
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import links, markdown, today_here
from benchmarks.contestants import BATCH, CONTESTANTS, Contestant, mlp
from common.errors import RunError, exit_with_message
from plots.request import chosen, parse, words
from plots.runs.network import FORMS

BANDWIDTHS = (100, 1000, 10_000)  # Mbit/s
OWN_LATENCY = 0.1  # ms, about what namespaces have without any added
LATENCIES = (OWN_LATENCY, 5)  # ms
NODES = (2, 4)
WARM_UP = 3  # rounds
TURN, MOST_A_TURN = 0.4, 8  # seconds, rounds
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
    exchanges: int = 2

    @property
    def modelled(self) -> float:
        """Seconds; NaN where no form of `plots.runs.network` describes the exchange."""
        if self.contestant.form is None:
            return math.nan
        up, down, hops = FORMS[self.contestant.form](self.nodes, self.nodes, self.exchanges)
        sending = (up * self.bits[0] + down * self.bits[1]) / self.link.bandwidth
        return self.computing + sending + hops * self.link.latency

    @property
    def error(self) -> float:
        """Of the model, as a share of what was measured."""
        return self.modelled / self.seconds - 1


class Session:
    """Ranks that hold all contestants, on the nodes of a network."""

    def __init__(self, nodes: links.Nodes, ranks: Sequence[subprocess.Popen[str]]) -> None:
        self.nodes, self._ranks = nodes, ranks
        self._answer()

    def link(self, bandwidth: float) -> Link:
        """What links of so many Mbit/s give: the last of some transfers, of about a quarter of a second."""
        self.nodes.shape(bandwidth)
        megabytes, found = 1.0, self.ask("link 1")
        for _ in range(3):
            megabytes = min(megabytes * 0.25 / found["seconds"], 200)
            found = self.ask(f"link {megabytes}")
        latency = found["trip"] / 2
        return Link(8e6 * megabytes / (found["seconds"] - latency), latency)

    def bits(self) -> list[tuple[float, float]]:
        """Of every contestant's round, up and down; afterwards it has warmed up, PowerSGD in the third round."""
        of_all = [self.ask(f"rounds {number} {WARM_UP}")["bits"] for number in range(len(CONTESTANTS))]
        return [(up / WARM_UP, down / WARM_UP) for up, down in of_all]

    def rounds(self, turns: int) -> dict[float | None, list[float]]:
        """By bandwidth, None where links are not shaped, the seconds of every contestant's round in its best turn."""
        shortest: dict[float | None, list[float]] = {
            bandwidth: [math.inf] * len(CONTESTANTS) for bandwidth in (None, *BANDWIDTHS)
        }
        for _ in range(turns):
            for bandwidth, mine in shortest.items():
                self.nodes.shape(bandwidth)
                for number in range(len(CONTESTANTS)):
                    seconds = self.ask(f"rounds {number} 1")["seconds"]
                    if more := min(int(TURN / seconds), MOST_A_TURN):
                        seconds = min(seconds, self.ask(f"rounds {number} {more}")["seconds"])
                    mine[number] = min(mine[number], seconds)
        return shortest

    def ask(self, line: str) -> Any:
        """What rank 0 answers. Raises RunError where it does not."""
        with suppress(BrokenPipeError):
            for rank in self._ranks:
                assert rank.stdin
                rank.stdin.write(line + "\n")
                rank.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._ranks[0].stdout
        if answer := self._ranks[0].stdout.readline():
            return json.loads(answer)
        raise RunError("a rank ended early; what it said stands above")


@contextmanager
def session(count: int, latency: float) -> Iterator[Session]:
    """So many ranks, each on a node of its own; latency in ms, one way."""
    with ExitStack() as stack:
        nodes = stack.enter_context(links.connected(count, 0 if latency == OWN_LATENCY else latency))
        ranks = []
        for number in range(count):
            env = {
                "RANK": str(number), "WORLD_SIZE": str(count), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": links.address(0), "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            ranks.append(stack.enter_context(nodes.start(number, ["benchmarks.network_rank"], env, **pipes)))
        yield Session(nodes, ranks)
        for rank in ranks:
            rank.communicate()  # ends its stdin, and waits for it


def measure(counts: Sequence[int], latencies: Sequence[float], turns: int) -> list[Point]:
    """Every contestant on every link."""
    points: list[Point] = []
    for count in counts:
        computing: list[float] = []
        for latency in latencies:
            with session(count, latency) as one:
                bits, exchanges = one.bits(), one.ask("exchanges")
                found = {bandwidth: one.link(bandwidth) for bandwidth in BANDWIDTHS}
                seconds = one.rounds(turns)
            computing = computing or seconds[None]  # of the first latency, that of namespaces
            points += [
                Point(who, count, bandwidth, latency, found[bandwidth], *its)
                for bandwidth in BANDWIDTHS
                for who, *its in zip(CONTESTANTS, computing, seconds[bandwidth], bits, exchanges, strict=True)
            ]
            print(f"{count} nodes, {latency:g} ms: measured", file=sys.stderr)
    return points


def report(points: Sequence[Point], load: float) -> str:
    """Markdown: what it was measured on and the load before, a row a point, and how good the model is."""
    ddp = {(p.nodes, p.latency, p.bandwidth): p.seconds for p in reversed(points)}  # the first contestant's
    rows = [
        {
            "nodes": point.nodes,
            "ms": f"{point.latency:g}",
            "Mbit/s": f"{point.bandwidth:g}",
            "as measured": f"{point.link.bandwidth / 1e6:.0f}, {point.link.latency * 1e3:.2f} ms",
            "method": point.contestant.name,
            "computing, ms": f"{point.computing * 1e3:.0f}",
            "round, ms": f"{point.seconds * 1e3:.0f}",
            "× DDP": f"{ddp[point.nodes, point.latency, point.bandwidth] / point.seconds:.2f}",
            "model": "–" if math.isnan(point.error) else f"{point.error:+.0%}",
        }
        for point in points
    ]
    errors = [abs(point.error) for point in points if not math.isnan(point.error)]
    return (
        f"{today_here(load)}; gloo, a network of {D:,} parameters, {BATCH} images a node and round.\n\n"
        f"{markdown(rows)}\n\nThe model is within 20 % of {sum(error <= 0.2 for error in errors)} of "
        f"{len(errors)} rounds, and at most {max(errors):.0%} off.\n"
    )


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


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line above."""
    request = parse(words("benchmarks.network", __doc__, arguments), {"long": "false"})
    is_long = chosen("long", request["long"], ("true", "false")) == "true"
    load = os.getloadavg()[0]
    try:
        points = measure(NODES, LATENCIES, 3) if is_long else measure(NODES[:1], LATENCIES[:1], 2)
    except links.NotHere as reason:
        print(f"not measured: {reason}")
        return
    text = report(points, load)
    print(text, end="")
    if is_long:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "network.md").write_text(f"# Rounds on shaped links\n\n{text}")
        write(points, RESULTS / "network.csv")


if __name__ == "__main__":
    with exit_with_message():
        main()
