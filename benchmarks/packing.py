"""Packing signs into bits: numpy's packbits on the tensor's memory against the plain torch expression.

    python -m benchmarks.packing

Prints, per vector length, the time of both for packing and unpacking and their ratio, each the median of repeats
taken in turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from algorithms.compressors import packing


def median_seconds(calls: list[Callable[[], object]], repeats: int = 15) -> list[float]:
    """Median seconds of each call, measured in turn after one warm-up."""
    times = [[] for _ in calls]
    for repeat in range(repeats + 1):
        for call, taken in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            if repeat:
                taken.append(time.perf_counter() - begin)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    """Print the table."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'d':>10} {'':>8} {'numpy (ms)':>11} {'torch (ms)':>11} {'torch/numpy':>12}")
    for d in (1_000, 100_000, 11_173_962):
        flags = torch.rand(d) < 0.5
        packed = packing.pack(flags)
        rows = {
            "pack": [partial(packing.pack, flags), partial(packing.pack_by_torch, flags)],
            "unpack": [partial(packing.unpack, packed, d), partial(packing.unpack_by_torch, packed, d)],
        }
        for name, calls in rows.items():
            ours, other = median_seconds(calls)
            print(f"{d:>10} {name:>8} {1e3 * ours:>11.3f} {1e3 * other:>11.3f} {other / ours:>12.1f}")


if __name__ == "__main__":
    main()
