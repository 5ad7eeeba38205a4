"""What an algorithm does in a round beside the gradients, in copies of a vector (a read and a write of d numbers).

    python -m benchmarks.step [d]

Simulated as `experiments.run` does it, n = 8 workers, one thread, d = 11,173,962 unless told: ResNet-18's. A phase's
floor is what must go through memory if nothing is computed twice and nothing kept that is not part of the state:

    worker   2.5 a worker: g and ŵ are read for the scale, and read again while ŵ is written
    server   0.5 a worker for the messages, 1.5 for ĝ ← ĝ + mean, 2.5 for its own message
    replica  5.5: five vectors of state and the message are read, four of state and x written

EF21 has no moments: its replica's floor is 3, of the signal and x. The second table has packed codes, against
reading the vector twice. Every number is the least of some calls; the allocator's default is measured in a process of
its own.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable

import experiments  # noqa: F401 (sets how torch's threads wait, before torch is imported)

# isort: split
import torch

from algorithms.compressors import ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from experiments.training.allocator import keep_freed_memory

D = 11_173_962
N = 8
FLOORS = {"CD-Adam": (2.5, 0.5 * N + 4, 5.5), "EF21, top-k": (2.5, 0.5 * N + 4, 3)}


def main() -> None:
    """Print both tables."""
    d = int(sys.argv[1]) if len(sys.argv) > 1 else D
    print(f"torch {torch.__version__}, one thread, d = {d}, n = {N}; copies of a vector\n")
    print("| method | freed memory | worker, each | server | replica | step | floor | step / floor |")
    print("|---|---|---|---|---|---|---|---|")
    for name in FLOORS:
        for is_kept in (False, True):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(_phases, (name, is_kept, d)), flush=True)
    keep_freed_memory()
    torch.set_num_threads(1)
    x = torch.randn(d)
    twice = copy_seconds(d)  # a copy's read and write move as much
    print("\n| code | encode / reading the vector twice | decode / the same |\n|---|---|---|")
    for compressor in (ScaledSign(), TopK()):
        payload = compressor.encode(x)
        ratios = (
            least(lambda c=compressor: c.encode(x)) / twice,
            least(lambda c=compressor, p=payload: c.decode(p, d)) / twice,
        )
        print(f"| {compressor} | " + " | ".join(f"{ratio:.1f}" for ratio in ratios) + " |")


def _methods() -> dict[str, Algorithm]:
    return {
        "CD-Adam": cd_adam(ScaledSign(), AMSGrad()),
        "EF21, top-k": ef21(TopK(), SGD(), uplink_only=False, dense_start=False),
    }


def _phases(name: str, is_kept: bool, d: int) -> str:
    """A row of the first table."""
    torch.set_num_threads(1)
    if is_kept:
        keep_freed_memory()
    algorithm = _methods()[name].unpacked()
    x, gradients, lr = torch.randn(d), torch.randn(N, d), torch.tensor([1e-3])
    workers, server, replica = (
        algorithm.start_workers(x, torch.arange(N)),
        algorithm.start_server(x),
        algorithm.start_replica(x),
    )
    for t in (1, 2):  # the second begins with memories that are not zero
        up, workers = algorithm.worker(gradients, workers, replica, lr, t, 0)
        down, server = algorithm.server(up, server, t, 0)
        replica = algorithm.replica(down, replica, lr, t)
    copy = copy_seconds(d)
    measured = (
        least(lambda: algorithm.worker(gradients, workers, replica, lr, 3, 0)) / copy / N,
        least(lambda: algorithm.server(up, server, 3, 0)) / copy,
        least(lambda: algorithm.replica(down, replica, lr, 3)) / copy,
    )
    step, floor = (N * phases[0] + phases[1] + phases[2] for phases in (measured, FLOORS[name]))
    cells = [*(f"{phase:.1f}" for phase in measured), f"{step:.0f}", f"{floor:g}", f"{step / floor:.1f}"]
    return f"| {name} | {'kept' if is_kept else 'given back'} | " + " | ".join(cells) + " |"


def copy_seconds(d: int) -> float:
    """Seconds that a copy of d numbers into memory that is there takes."""
    source, target = torch.randn(d), torch.empty(d)
    return least(lambda: target.copy_(source), 20)


def least(call: Callable[[], object], repeats: int = 4) -> float:
    """The least time of a call, after one that is not timed."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    main()
