"""What the server holds beside the payloads, in vectors of d coordinates, over the number of workers.

    python -m benchmarks.server_memory

Every cell is the largest resident size of a process of its own while it serves one round of CD-Adam, less what it had
just before, divided by the bytes of a dense vector. Payloads that come one after the other are decoded and added so;
stacked, as the simulation has them, they are decoded to [n, d] first. A server of one of four spans has a quarter of
the coordinates. The payloads themselves, n·d/8 bytes, and the server's state are there before. For Linux.
"""

import multiprocessing
import resource
from collections.abc import Iterator
from pathlib import Path

import torch

from algorithms.compressors import Payload, ScaledSign
from algorithms.core.update_rules import AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.utils.seeding import Key

D = 2**21
WORKERS = (2, 8, 32, 128)


def main() -> None:
    """Print the table."""
    print(f"torch {torch.__version__}, d = {D}; vectors of d coordinates held while serving\n")
    print("| n | one after the other | of a quarter | stacked |\n|---|---|---|---|")
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for n in WORKERS:
            cells = [pool.apply(_held, (n, D // parts, is_stacked)) for parts, is_stacked in _FORMS]
            print(f"| {n} | " + " | ".join(f"{held / (4 * D):.1f}" for held in cells) + " |")


_FORMS = ((1, False), (4, False), (1, True))


def _held(n: int, d: int, is_stacked: bool) -> int:
    """Bytes beside the payloads of n workers."""
    algorithm = cd_adam(ScaledSign(), AMSGrad())
    payload = ScaledSign().encode(torch.ones(d), Key.none())
    stacked = tuple(tensor.expand(n, *tensor.shape).contiguous() for tensor in payload)
    state = algorithm.start_server(torch.zeros(d))
    small = torch.zeros(8)
    algorithm.server(_each(ScaledSign().encode(small), 2), algorithm.start_server(small), 1, 0)  # what is loaded once
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    algorithm.server(type(payload)(*stacked) if is_stacked else _each(payload, n), state, 1, 0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before


def _each(payload: Payload, n: int) -> Iterator[Payload]:
    return (payload for _ in range(n))


if __name__ == "__main__":
    main()
