"""One rank of `benchmarks.network`, which starts it: it holds all contestants and takes rounds as it is told.

A line `CONTESTANT ROUNDS` on stdin asks for so many rounds of the contestant of that number; rank 0 answers in a line
of JSON with the seconds of every round and the bits up and down that a worker has had in them. `link MEGABYTES`
asks for what the link from node 1 to node 0 gives: seconds of a round trip, and of so much data.
"""

import json
import sys
import time

import torch
import torch.distributed as dist

from benchmarks.contestants import CONTESTANTS, rounds_of
from common.errors import exit_with_message
from experiments.cluster.launch import joined, launch
from experiments.cluster.ranks import Ranks

TIMEOUT = 120.0
_TRIPS = 5


def main() -> None:
    """Answer until stdin ends."""
    torch.set_num_threads(1)
    with exit_with_message(), joined(launch(), "cpu", TIMEOUT) as ranks:
        contestants = [rounds_of(contestant, ranks) for contestant in CONTESTANTS]
        _answer(ranks, {"d": sum(p.numel() for p in _mlp().parameters())})
        for line in sys.stdin:
            what, count = line.split()
            ranks.wait()
            if what == "link":
                _answer(ranks, _link(ranks, float(count)))
                continue
            take, bits = contestants[int(what)]
            before, begin, seconds = bits(), time.perf_counter(), []
            for _ in range(int(count)):
                take()
                end = time.perf_counter()
                seconds.append(end - begin)
                begin = end
            up, down = (after - one for one, after in zip(before, bits(), strict=True))
            _answer(ranks, {"seconds": seconds, "bits_up": up / int(count), "bits_down": down / int(count)})


def _mlp() -> torch.nn.Module:
    from benchmarks.contestants import mlp

    return mlp()


def _link(ranks: Ranks, megabytes: float) -> dict[str, float]:
    """The shortest of some round trips, and the seconds of one transfer."""
    byte, data = torch.zeros(1, dtype=torch.uint8), torch.zeros(int(megabytes * 1e6), dtype=torch.uint8)
    trips = []
    for _ in range(_TRIPS):
        begin = time.perf_counter()
        _pass(ranks, byte, 0, 1)
        _pass(ranks, byte, 1, 0)
        trips.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    _pass(ranks, data, 1, 0)
    return {"trip": min(trips), "seconds": time.perf_counter() - begin}


def _pass(ranks: Ranks, data: torch.Tensor, source: int, target: int) -> None:
    if ranks.rank == source:
        dist.send(data, target)
    elif ranks.rank == target:
        dist.recv(data, source)


def _answer(ranks: Ranks, what: dict[str, object] | dict[str, float]) -> None:
    if ranks.is_first:
        print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
