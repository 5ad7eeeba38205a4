"""One rank of `benchmarks.network`, which starts it: python -m benchmarks.network_rank NODES TURNS, nodes in JSON.

All ranks take the same rounds; rank 0 shapes the links and prints what was measured, in JSON.
"""

import json
import math
import sys
import time

import torch
import torch.distributed as dist

from benchmarks.contestants import CONTESTANTS, Training
from benchmarks.links import Nodes
from common.errors import exit_with_message
from common.signals import end_with_parent
from experiments.cluster.launch import join_ranks, launch
from experiments.cluster.ranks import Ranks

BANDWIDTHS = (100, 1000, 10_000)  # Mbit/s
TIMEOUT = 120.0
WARM_UP = 3  # rounds; PowerSGD compresses from the third on
TURN, MOST_A_TURN = 0.4, 8  # seconds, rounds
_TRIPS = 20


def main() -> None:
    """The command line above."""
    end_with_parent()
    torch.set_num_threads(1)
    nodes = Nodes(**json.loads(sys.argv[1]))
    with exit_with_message(), join_ranks(launch(), "cpu", TIMEOUT) as ranks:
        found = measured(ranks, nodes, int(sys.argv[2]))
        if ranks.is_first:
            print(json.dumps(found))


def measured(ranks: Ranks, nodes: Nodes, turns: int) -> list[dict[str, object]]:
    """A row for every bandwidth and contestant, in bit/s and seconds: the link as it was measured, bits and exchanges
    of a round, and its seconds in the best of some turns, on this link and on links not shaped (`computing`)."""
    trainings = [start(ranks) for _, _, start in CONTESTANTS]
    for one in trainings:
        _round(ranks, one, WARM_UP)
    bits = [(one.meter.bits_up / WARM_UP, one.meter.bits_down / WARM_UP) for one in trainings]
    links = {bandwidth: _link(ranks, nodes, bandwidth) for bandwidth in BANDWIDTHS}
    shortest: dict[float | None, list[float]] = {
        bandwidth: [math.inf] * len(trainings) for bandwidth in (None, *BANDWIDTHS)
    }
    for _ in range(turns):
        for bandwidth, mine in shortest.items():
            _shape(ranks, nodes, bandwidth)
            for number, one in enumerate(trainings):
                seconds = _round(ranks, one, 1)
                if more := ranks.from_first(min(int(TURN / seconds), MOST_A_TURN)):
                    seconds = min(seconds, _round(ranks, one, more))
                mine[number] = min(mine[number], seconds)
    return [
        {
            "label": label, "form": form, "nodes": ranks.size, "bandwidth": bandwidth * 1e6, **links[bandwidth],
            "computing": shortest[None][number], "seconds": shortest[bandwidth][number], "bits_up": bits[number][0],
            "bits_down": bits[number][1], "exchanges": trainings[number].exchanges,
        }
        for bandwidth in BANDWIDTHS
        for number, (label, form, _) in enumerate(CONTESTANTS)
    ]  # fmt: skip


def _shape(ranks: Ranks, nodes: Nodes, bandwidth: float | None) -> None:
    if ranks.is_first:
        nodes.shape(bandwidth)
    ranks.wait()


def _round(ranks: Ranks, one: Training, count: int) -> float:
    """Seconds of one of so many rounds, until all ranks have done all of them: what one rank sends may lie in its
    system's buffers when it goes on."""
    ranks.wait()
    begin = time.perf_counter()
    for _ in range(count):
        one.take()
    ranks.wait()
    return (time.perf_counter() - begin) / count


def _link(ranks: Ranks, nodes: Nodes, bandwidth: float) -> dict[str, float]:
    """A link of so many Mbit/s as it is: bit/s of the last of some transfers, of about a quarter of a second, from
    node 1 to node 0, and half the median of some round trips."""
    _shape(ranks, nodes, bandwidth)
    size, seconds = 1_000_000, 0.0
    for _ in range(4):
        size = ranks.from_first(min(int(size * 0.25 / seconds), 200_000_000)) if seconds else size
        seconds = _passed(ranks, size, (1, 0))
    latency = sorted(_passed(ranks, 1, (0, 1), (1, 0)) for _ in range(_TRIPS))[_TRIPS // 2] / 2
    return {"link_bandwidth": 8 * size / (seconds - latency), "link_latency": latency}


def _passed(ranks: Ranks, size: int, *ways: tuple[int, int]) -> float:
    """Seconds that so many bytes take from one node to another, on ways one after the other."""
    data = torch.zeros(size, dtype=torch.uint8)
    ranks.wait()
    begin = time.perf_counter()
    for source, target in ways:
        if ranks.rank == source:
            dist.send(data, target)
        elif ranks.rank == target:
            dist.recv(data, source)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
