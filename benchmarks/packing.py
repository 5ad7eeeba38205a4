"""Packing signs into bits: numpy's packbits on the tensor's memory against the plain torch expression.

    python -m benchmarks.packing

Prints, per vector length, the time of both for packing and unpacking and their ratio.
"""

from functools import partial

import torch

from algorithms.compressors import packing
from benchmarks import seconds


def main() -> None:
    """Print the table."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'d':>10} {'':>8} {'numpy (ms)':>11} {'torch (ms)':>11} {'torch/numpy':>12}")
    for d in (1_000, 100_000, 11_173_962):
        flags = torch.rand(d) < 0.5
        packed = packing.pack(flags)
        for name, *calls in (
            ("pack", partial(packing.pack, flags), partial(packing.pack_by_torch, flags)),
            ("unpack", partial(packing.unpack, packed, d), partial(packing.unpack_by_torch, packed, d)),
        ):
            ours, other = (seconds(call, repeats=15) for call in calls)
            print(f"{d:>10} {name:>8} {1e3 * ours:>11.3f} {1e3 * other:>11.3f} {other / ours:>12.1f}")


if __name__ == "__main__":
    main()
