"""One rank of `benchmarks.network`, which starts it: it holds all contestants and does what lines on stdin ask for.

    rounds CONTESTANT COUNT    the seconds of one of so many rounds, and the bits up and down a worker of all
    exchanges                  of a round of every contestant with a server in parts
    link MEGABYTES             the seconds of a round trip, and of so much from node 1 to node 0

Rank 0 answers in a line of JSON.
"""

import json
import sys
import time

import torch
import torch.distributed as dist

from benchmarks.contestants import CONTESTANTS, Training, training
from common.errors import exit_with_message
from common.parent import end_with_parent
from experiments.cluster.launch import join_ranks, launch
from experiments.cluster.ranks import Ranks

TIMEOUT = 120.0
_TRIPS = 20


def main() -> None:
    """Answer until stdin ends."""
    end_with_parent()
    torch.set_num_threads(1)
    with exit_with_message(), join_ranks(launch(), "cpu", TIMEOUT) as ranks:
        _serve(ranks)


def _serve(ranks: Ranks) -> None:
    trainings = [training(contestant, ranks) for contestant in CONTESTANTS]
    _answer(ranks, "ready")
    for line in sys.stdin:
        ranks.wait()
        match line.split():
            case ["rounds", number, count]:
                _answer(ranks, _rounds(ranks, trainings[int(number)], int(count)))
            case ["exchanges"]:
                _answer(ranks, [one.exchanges for one in trainings])
            case ["link", megabytes]:
                _answer(ranks, _link(ranks, float(megabytes)))


def _rounds(ranks: Ranks, one: Training, count: int) -> dict[str, object]:
    """Seconds of a round are until all ranks have done all of them: what one rank sends may lie in its system's
    buffers when it goes on."""
    before = one.bits()
    ranks.wait()
    begin = time.perf_counter()
    for _ in range(count):
        one.take()
    ranks.wait()
    seconds = (time.perf_counter() - begin) / count
    return {"seconds": seconds, "bits": [after - first for first, after in zip(before, one.bits(), strict=True)]}


def _link(ranks: Ranks, megabytes: float) -> dict[str, float]:
    """The median of some round trips, and the seconds of one transfer."""
    byte, data = torch.zeros(1, dtype=torch.uint8), torch.zeros(int(megabytes * 1e6), dtype=torch.uint8)
    trips = []
    for _ in range(_TRIPS):
        begin = time.perf_counter()
        _pass(ranks, byte, 0, 1)
        _pass(ranks, byte, 1, 0)
        trips.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    _pass(ranks, data, 1, 0)
    return {"trip": sorted(trips)[_TRIPS // 2], "seconds": time.perf_counter() - begin}


def _pass(ranks: Ranks, data: torch.Tensor, source: int, target: int) -> None:
    if ranks.rank == source:
        dist.send(data, target)
    elif ranks.rank == target:
        dist.recv(data, source)


def _answer(ranks: Ranks, what: object) -> None:
    if ranks.is_first:
        print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
