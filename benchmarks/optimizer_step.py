"""Time and memory of `CompressedOptimizer.step` against torch's AdamW, and of the DDP hook against plain DDP.

    python -m benchmarks.optimizer_step                     1 and 10 million parameters, all methods, and the hook
    python -m benchmarks.optimizer_step 50 adamw cd_adam    50 million, these methods

Every process has one thread. A method and `torch.optim.AdamW(foreach=True)` step the same parameters in turn, so
other load on the machine affects both. Times are medians: CPU time for a step, wall time for the hook over loopback.
Memory is measured in a fresh process, without parameters and gradients: after a step, and the peak during one.
"""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from algorithms import CompressedOptimizer, compressed
from common.errors import exit_with_message
from experiments.run_store.environment import environment

SIDE, BATCH, STEPS, WARMUP = 512, 8, 9, 3
METHODS: dict[str, dict[str, Any]] = {
    "adamw": {"weight_decay": 0.01}, "cd_adam": {}, "loco": {"weight_decay": 0.01}, "ef21": {},
    "onebit_adam": {"rounds": 10**6, "warmup": 1},
}  # fmt: skip
HOOK_METHODS = ("adamw", "cd_adam", "loco")


def main() -> None:
    """Print a row for every method and size, and one for every hook."""
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or [1, 10]
    methods = [word for word in sys.argv[1:] if not word.isdigit()] or list(METHODS)
    machine = environment()
    print(f"{machine['processor']}, {machine['cores']} cores, load {os.getloadavg()[0]:.1f}")
    print(f"torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}\n")
    print("| method | million | ms | AdamW, ms | ratio | bytes held | peak, bytes | AdamW's |\n" + "|---" * 8 + "|")
    for million in sizes:
        adamw = _in_fresh_process(_measure_memory, "", million)
        for method in methods:
            held, peak = _in_fresh_process(_measure_memory, method, million)
            own, torch_ms = _in_fresh_process(_time_steps, method, million)
            memory = f"{held:.1f} | {peak:.1f} | {adamw[0]:.1f}, {adamw[1]:.1f}"
            print(f"| `{method}` | {million} | {own:.1f} | {torch_ms:.1f} | {own / torch_ms:.2f} | {memory} |")
    if 10 in sizes:
        print("\n| hook, 2 ranks, 10 million | ms | DDP, ms | ratio |\n|---|---|---|---|")
        for method in filter(methods.__contains__, HOOK_METHODS):
            own, plain = _time_hook(method, 10)
            print(f"| `{method}` | {own:.1f} | {plain:.1f} | {own / plain:.2f} |")


def network(million: int) -> nn.Sequential:
    """Return square layers with biases and about this many million parameters."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(round(million * 1e6 / (SIDE * (SIDE + 1))))))


def optimizer(net: nn.Module, method: str) -> torch.optim.Optimizer:
    """Return the method's optimizer, or torch's AdamW for an empty name. Also fills gradients with normal numbers."""
    for param in net.parameters():
        param.grad = torch.randn_like(param) * 1e-3
    if method:
        return CompressedOptimizer(net.parameters(), method, lr=1e-4, **METHODS[method])
    return torch.optim.AdamW(net.parameters(), lr=1e-4, foreach=True)


def _time_steps(method: str, million: int) -> tuple[float, ...]:
    net = network(million)
    return _median_times([optimizer(net, name).step for name in (method, "")], process_time)


def _measure_memory(method: str, million: int) -> tuple[float, float]:
    """Return the bytes per parameter that a process holds after a step, and the peak during one."""
    optimizer(nn.Linear(8, 8), method).step()  # load torch's lazy parts first
    net = network(million)
    optimizer(net, "")  # makes the gradients resident
    d, before = sum(param.numel() for param in net.parameters()), _resident_bytes("VmRSS")
    own = optimizer(net, method)
    own.step()
    own.step()
    held = _resident_bytes("VmRSS") - before
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    own.step()
    return held / d, (_resident_bytes("VmHWM") - before) / d


def _resident_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def _median_times(calls: list[Callable[[], object]], clock: Callable[[], float]) -> tuple[float, ...]:
    """Return the median time of each call, in ms. Calls take turns."""
    times = [[_time(call, clock) for call in calls] for _ in range(WARMUP + STEPS)][WARMUP:]
    return tuple(map(median, zip(*times, strict=True)))


def _time(call: Callable[[], object], clock: Callable[[], float]) -> float:
    begin = clock()
    call()
    return 1e3 * (clock() - begin)


def _in_fresh_process(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function in a fresh process with one thread."""
    with mp.get_context("spawn").Pool(1, torch.set_num_threads, (1,)) as pool:
        return pool.apply(function, given)


def _time_hook(method: str, million: int) -> tuple[float, float]:
    with TemporaryDirectory() as folder, mp.get_context("spawn").Pool(2, torch.set_num_threads, (1,)) as pool:
        return pool.starmap(_time_rank, [(rank, folder, method, million) for rank in range(2)], chunksize=1)[0]


def _time_rank(rank: int, folder: str, method: str, million: int) -> tuple[float, ...]:
    """Time a training step with a hook and one without, in turn."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    steps = [_training_step(million, hooked) for hooked in (method, "")]
    times = _median_times(steps, perf_counter)
    steps.clear()  # DDP's models go before their process group
    dist.destroy_process_group()
    return times


def _training_step(million: int, method: str) -> Callable[[], None]:
    net, batch = DistributedDataParallel(network(million)), torch.randn(BATCH, SIDE)
    if method:
        net.register_comm_hook(*compressed(net.parameters(), method))
    own = torch.optim.AdamW(net.parameters(), lr=1e-4, foreach=True)

    def step() -> None:
        own.zero_grad()
        net(batch).square().mean().backward()
        own.step()

    return step


if __name__ == "__main__":
    with exit_with_message():
        sys.stdout.reconfigure(line_buffering=True)
        torch.set_num_threads(1)
        main()
