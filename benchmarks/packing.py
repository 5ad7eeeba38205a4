"""Packing signs into bits: numpy's packbits on the tensor's memory against the plain torch expression.

    python -m benchmarks.packing

Prints, per vector length, the median time of both for packing and unpacking and their ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.utils.benchmark import Timer

from algorithms.compressors import packing


def milliseconds(call: Callable[[], object]) -> float:
    """The median time of a call, on as many threads as torch takes."""
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    return 1e3 * timer.blocked_autorange().median


def main() -> None:
    """Print the table."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'d':>10} {'':>8} {'numpy (ms)':>11} {'torch (ms)':>11} {'torch/numpy':>12}")
    for d in (1_000, 100_000, 11_173_962):
        flags = torch.rand(d) < 0.5
        packed = packing.pack(flags)
        for name, ours, theirs in (
            ("pack", partial(packing.pack, flags), partial(packing.pack_by_torch, flags)),
            ("unpack", partial(packing.unpack, packed, d), partial(packing.unpack_by_torch, packed, d)),
        ):
            one, other = milliseconds(ours), milliseconds(theirs)
            print(f"{d:>10} {name:>8} {one:>11.3f} {other:>11.3f} {other / one:>12.1f}")


if __name__ == "__main__":
    main()
