"""Times of a training step's parts, compared with the device's ceilings.

    python -m benchmarks.train_step                                        ResNet-18 of the paper, CD-Adam, 8 workers
    python -m benchmarks.train_step task.model.width=8 task.precision=bf16 algorithm=ef21_both_ways

Times are means of a few calls, and each is printed at once. Ceilings are measured in the same process: a large matrix
product in the run's precision, and a large copy. The network's computing is compared with the product. Inputs and
outputs of all other parts must pass through memory once, so these parts are compared with the copy.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from algorithms.comm.gather_broadcast import from_bytes, to_bytes
from common.errors import exit_with_message
from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.contracts.assertions import tensors_in
from experiments.run_store.environment import environment
from experiments.training.build import build_trainer
from experiments.training.trainer import Trainer

SIMULATED = ("forward and backward", "worker phase", "server phase", "update")
"""The parts of a step in one process. The others are a cluster's, and evaluation."""

DEFAULT = ["task=cifar10/resnet18", "algorithm=cd_adam", "rounds=100", "task.evaluation_rows=1000"]


def main() -> None:
    """Print the table for the overrides on the command line."""
    overrides = [*DEFAULT, *sys.argv[1:]]
    run = load_run(overrides)
    trainer = build_trainer(run, Ranks())
    task = trainer.task
    here = environment()
    where = here["gpus"][0] if task.device.type == "cuda" else f"{here['processor']}, {here['cores']} cores"
    print(f"{where}; torch {torch.__version__}, {torch.get_num_threads()} threads; {' '.join(overrides)}")
    print(f"d = {task.d}, {task.workers} workers, {len(trainer.lrs)} step sizes\n")
    flops, copied = _flops_a_second(task.device, run.task.options.get("precision")), _bytes_a_second(task.device)
    print(f"ceilings: {flops / 1e9:.4g} GFLOP/s by a matrix product, {copied / 1e9:.4g} GB/s by a copy\n")

    trainer.step()  # warm-up
    print("| part | ms | % of ceiling |\n|---|---|---|")
    times = {}
    for name, call, work, ceiling in _parts(trainer, flops, copied):
        times[name] = time = time_call(call)
        print(f"| {name} | {1e3 * time:.2f} | {f'{100 * work / time / ceiling:.0f}' if work else ''} |")
    step = sum(times[name] for name in SIMULATED)
    shares = ", ".join(f"{name} {100 * times[name] / step:.1f} %" for name in SIMULATED)
    print(f"\na simulated step: {1e3 * step:.1f} ms; {shares}")


def time_call(call: Callable[[], object]) -> float:
    """Return the mean time of three calls, after two that are not timed. Waits for a GPU."""
    return Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads()).timeit(3).mean


def _parts(trainer: Trainer, flops: float, copied: float) -> Iterator[tuple[str, Callable[[], object], float, float]]:
    """Yield the parts of a step: name, call, the floating-point operations or bytes that it needs at least, and the
    device's rate of them per second."""
    task, state, lr, t = trainer.task, trainer.state, trainer._lr, 2
    packed, x, statistics = trainer.cluster.algorithm, state.replica.x, trainer.statistics
    gradients, _ = task.gradients(x, statistics, t)
    yield "forward and backward", lambda: task.gradients(x, statistics, t), _flops(trainer), flops
    for algorithm, suffix in ((packed.without_packing(), ""), (packed, ", packed")):
        worker = partial(algorithm.worker, gradients, state.workers, state.replica, lr, t, 0)
        up, _ = sent = worker()
        yield f"worker phase{suffix}", worker, _bytes((gradients, state.workers, sent)), copied
        if suffix:
            message = to_bytes(up, 2)
            yield "message up", partial(to_bytes, up, 2), _bytes((up, message)), copied
            yield "message up, read", partial(from_bytes, message, up, 2), _bytes((up, message)), copied
        server = partial(algorithm.server, up, state.server, t, 0)
        down, _ = answered = server()
        yield f"server phase{suffix}", server, _bytes((up, state.server, answered)), copied
        update = partial(algorithm.replica, down, state.replica, lr, t)
        yield f"update{suffix}", update, _bytes((down, state.replica, update())), copied
    yield f"evaluation, {task.evaluated} rows and the test set", trainer.evaluate, 0.0, flops


def _flops(trainer: Trainer) -> float:
    """Return the floating-point operations of a round's convolutions and products, forward and backward."""
    task = trainer.task
    with FlopCounterMode(display=False) as counter:
        task._run_passes(trainer.state.replica.x.unsqueeze(1), trainer.statistics, task._draws[0])
    return counter.get_total_flops()


def _bytes(node: object) -> int:
    return sum(tensor.nbytes for tensor in tensors_in(node).values())


def _flops_a_second(device: torch.device, precision: str | None) -> float:
    size = 8192 if device.type == "cuda" else 2048
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / time_call(lambda: a @ b)


def _bytes_a_second(device: torch.device) -> float:
    a = torch.ones(2**28 if device.type == "cuda" else 2**26, device=device)
    b = torch.empty_like(a)
    return 2 * a.nbytes / time_call(lambda: b.copy_(a))


if __name__ == "__main__":
    with exit_with_message():
        sys.stdout.reconfigure(line_buffering=True)  # so that a stopped run has printed its results
        print(f"load average {os.getloadavg()[0]:.1f}")
        main()
