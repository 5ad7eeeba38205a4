"""One rank of `benchmarks.network`, which starts it: python -m benchmarks.network_rank TURNS.

All ranks make the same rounds; rank 0 prints the measurements in JSON.
"""

import json
import math
import sys
import time

import torch

from benchmarks.contestants import CONTESTANTS, Training
from common.errors import exit_with_message
from common.signals import end_with_parent
from experiments.cluster.launch import join_ranks, read_launch
from experiments.cluster.ranks import Ranks

TIMEOUT = 120.0
WARM_UP = 3  # rounds; PowerSGD compresses from the third on
TURN, MOST_A_TURN = 0.4, 8  # seconds, rounds


def main() -> None:
    end_with_parent()
    torch.set_num_threads(1)
    with exit_with_message(), join_ranks(read_launch(), "cpu", TIMEOUT) as ranks:
        rows = measure_contestants(ranks, int(sys.argv[1]))
        if ranks.is_first:
            print(json.dumps(rows))


def measure_contestants(ranks: Ranks, turns: int) -> list[dict[str, object]]:
    """Return a row for every contestant: bits and exchanges of a round, and its seconds in the best turn."""
    rows = []
    trainings = [start(ranks) for _, _, start in CONTESTANTS]
    for (label, form, _), training in zip(CONTESTANTS, trainings, strict=True):
        _time_rounds(ranks, training, WARM_UP)
        bits = {"bits_up": training.meter.bits_up / WARM_UP, "bits_down": training.meter.bits_down / WARM_UP}
        rows.append({"label": label, "form": form, "exchanges": training.exchanges, "seconds": math.inf, **bits})
    for _ in range(turns):
        for row, training in zip(rows, trainings, strict=True):
            seconds = _time_rounds(ranks, training, 1)
            if more := ranks.from_first(min(int(TURN / seconds), MOST_A_TURN)):
                seconds = min(seconds, _time_rounds(ranks, training, more))
            row["seconds"] = min(row["seconds"], seconds)
    return rows


def _time_rounds(ranks: Ranks, training: Training, count: int) -> float:
    """Return the mean seconds of `count` rounds, until all ranks have finished: a rank may go on while its messages
    are in the system's buffers."""
    ranks.wait()
    begin = time.perf_counter()
    for _ in range(count):
        training.run_round()
    ranks.wait()
    return (time.perf_counter() - begin) / count


if __name__ == "__main__":
    main()
