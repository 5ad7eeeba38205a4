"""One rank of `benchmarks.network`, which starts it: python -m benchmarks.network_rank NODES TURNS, nodes in JSON.

All ranks take the same rounds; rank 0 shapes the links and prints what was measured, in JSON.
"""

import json
import math
import sys
import time

import torch

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
    """A row for every bandwidth and contestant, in bit/s and seconds: bits and exchanges of a round, and its seconds
    in the best of some turns, on such links and on links not shaped (`computing`)."""
    trainings = [start(ranks) for _, _, start in CONTESTANTS]
    for one in trainings:
        _round(ranks, one, WARM_UP)
    bits = [(one.meter.bits_up / WARM_UP, one.meter.bits_down / WARM_UP) for one in trainings]
    shortest: dict[float | None, list[float]] = {
        bandwidth: [math.inf] * len(trainings) for bandwidth in (None, *BANDWIDTHS)
    }
    for _ in range(turns):
        for bandwidth, mine in shortest.items():
            if ranks.is_first:
                nodes.shape(bandwidth)
            for number, one in enumerate(trainings):
                seconds = _round(ranks, one, 1)
                if more := ranks.from_first(min(int(TURN / seconds), MOST_A_TURN)):
                    seconds = min(seconds, _round(ranks, one, more))
                mine[number] = min(mine[number], seconds)
    return [
        {
            "label": label, "form": form, "nodes": ranks.size, "bandwidth": bandwidth * 1e6,
            "computing": shortest[None][number], "seconds": shortest[bandwidth][number], "bits_up": bits[number][0],
            "bits_down": bits[number][1], "exchanges": trainings[number].exchanges,
        }
        for bandwidth in BANDWIDTHS
        for number, (label, form, _) in enumerate(CONTESTANTS)
    ]  # fmt: skip


def _round(ranks: Ranks, one: Training, count: int) -> float:
    """Seconds of one of so many rounds, until all ranks have done all of them: what one rank sends may lie in its
    system's buffers when it goes on."""
    ranks.wait()
    begin = time.perf_counter()
    for _ in range(count):
        one.take()
    ranks.wait()
    return (time.perf_counter() - begin) / count


if __name__ == "__main__":
    main()
