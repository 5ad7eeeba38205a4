"""What an algorithm does in a round beside the gradients, in copies of a vector (a read and a write of d numbers).

    python -m benchmarks.step [d]

Simulated as `experiments.run` does it, n = 8 workers, one thread, d = 11,173,962 unless told: ResNet-18's. A phase's
floor is what must go through memory if nothing is computed twice and nothing kept that is not part of the state:

    worker   2.5 a worker: g and ŵ are read for the scale, and read again while ŵ is written
    server   0.5 a worker for the messages, 1.5 for ĝ ← ĝ + mean, 2.5 for its own message
    replica  5.5: five vectors of state and the message are read, four of state and x written

EF21 has no moments: its replica's floor is 3, of the signal and x. The second table has packed codes, against
reading the vector twice. Every number is the least of some calls.
"""

import sys

import torch

from algorithms.compressors import ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from benchmarks import least_seconds, markdown
from experiments.training.allocator import keep_freed_memory

D = 11_173_962
N = 8
FLOORS = {"CD-Adam": (2.5, 0.5 * N + 4, 5.5), "EF21, top-k": (2.5, 0.5 * N + 4, 3)}


def main() -> None:
    """Print both tables."""
    d = int(sys.argv[1]) if len(sys.argv) > 1 else D
    print(f"torch {torch.__version__}, one thread, d = {d}, n = {N}; copies of a vector\n")
    keep_freed_memory()
    torch.set_num_threads(1)
    print(markdown([_phases(name, d) for name in FLOORS]))
    x = torch.randn(d)
    twice = copy_seconds(d)  # a copy's read and write move as much
    rows = []
    for compressor in (ScaledSign(), TopK()):
        payload = compressor.encode(x)
        rows.append(
            {
                "code": compressor,
                "encode / reading the vector twice": f"{least_seconds(lambda c=compressor: c.encode(x)) / twice:.1f}",
                "decode / the same": f"{least_seconds(lambda c=compressor, p=payload: c.decode(p, d)) / twice:.1f}",
            }
        )
    print(f"\n{markdown(rows)}")


def _methods() -> dict[str, Algorithm]:
    return {
        "CD-Adam": cd_adam(ScaledSign(), AMSGrad()),
        "EF21, top-k": ef21(TopK(), SGD(), uplink_only=False, dense_start=False),
    }


def _phases(name: str, d: int) -> dict[str, object]:
    """A row of the first table."""
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
    worker, server_, replica_ = (
        least_seconds(lambda: algorithm.worker(gradients, workers, replica, lr, 3, 0)) / copy / N,
        least_seconds(lambda: algorithm.server(up, server, 3, 0)) / copy,
        least_seconds(lambda: algorithm.replica(down, replica, lr, 3)) / copy,
    )
    step = N * worker + server_ + replica_
    floor = N * FLOORS[name][0] + sum(FLOORS[name][1:])
    return {
        "method": name,
        "worker, each": f"{worker:.1f}",
        "server": f"{server_:.1f}",
        "replica": f"{replica_:.1f}",
        "step": f"{step:.0f}",
        "floor": f"{floor:g}",
        "step / floor": f"{step / floor:.1f}",
    }


def copy_seconds(d: int) -> float:
    """Seconds that a copy of d numbers into memory that is there takes."""
    source, target = torch.randn(d), torch.empty(d)
    return least_seconds(lambda: target.copy_(source), 20)


if __name__ == "__main__":
    main()
