"""Ranks as a launcher starts them, but ten times faster: forked from a process that has imported everything."""

import faulthandler
import gc
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from run_support import before_round, configuration, read_checkpoint, timeless
from small_network import LR

from algorithms.comm import consistency
from algorithms.compressors import shard
from algorithms.core import tiles
from algorithms.core.update_rules import SGD, Adam, AMSGrad, Update
from common.errors import exit_with_message
from experiments.config.schema import RunConfig
from experiments.external.collectives import METHODS, flow, nbytes
from experiments.run_store.checkpoint import rounds
from experiments.training.runner import bring_to_end
from experiments.training.session import session

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.cluster.warm"])  # found only from the root

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "TORCHELASTIC_")
"""Prefixes of the variables that launchers set."""

RUNS = {
    # Batch norms' statistics, every worker's memory and moments, and the server's own model.
    "digits": (
        *("task=digits", "task.model.width=4", "task.rows=136", "task.batch_size=4", "task.evaluation_rows=16"),
        "algorithm=quantized_adam",
    ),
    # Draws of data and of messages, and memories of both ends.
    "logreg": (
        *("task=logreg/breast_cancer", "task.batch_size=3", "algorithm=ef21", "algorithm.dense_start=true"),
        *("compressor=random_k", "compressor.k=4"),
    ),
    # Two groups: statistics of every worker, and models and moments of every group.
    "groups": (
        *("task=digits", "task.model.width=4", "task.rows=136", "task.batch_size=4", "task.evaluation_rows=16"),
        *("algorithm=diloco", "algorithm.period=3", "compressor=top_k", "compressor.ratio=0.1", "cluster.groups=2"),
    ),
}
"""Runs for tests of checkpoints."""

HANGS = 240.0
"""Seconds after which a rank prints its stack. It is below the timeout, so that a hanging rank is understood."""


@dataclass
class Ended:
    """How a rank ended."""

    code: int | None  # the exit status; −s if signal s killed it
    said: str  # on both its outputs


class Launch:
    """`size` ranks that each call `act`, with their outputs in `folder`; None: a process started alone."""

    def __init__(
        self, folder: Path, size: int | None, act: Callable, environment: Callable[[int], dict] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._said = [folder / f"rank-{rank}.txt" for rank in range(size or 1)]
        port = free_port()
        environment = environment or (lambda rank: as_torchrun(rank, size, port) if size else {})
        self.ranks = [
            _CONTEXT.Process(target=_rank, args=(act, environment(rank), str(said)), daemon=True)
            for rank, said in enumerate(self._said)
        ]
        for process in self.ranks:
            process.start()

    def wait(self, timeout: float = 300) -> list[Ended]:
        """Wait for all ranks. Ranks that do not end in time are killed, which their code shows."""
        deadline = time.monotonic() + timeout
        for process in self.ranks:
            process.join(max(0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        pairs = zip(self.ranks, self._said, strict=True)
        return [Ended(process.exitcode, said.read_text()) for process, said in pairs]


def spawn(folder: Path, size: int | None, act: Callable[[], object], **options: object) -> list[Ended]:
    """Run `act` on `size` ranks; None: in a process alone, which simulates all workers. Returns how each ended."""
    return Launch(folder, size, act, **options).wait()


def outputs(ranks: list[Ended]) -> list[str]:
    """Check that all ranks succeeded. Returns their outputs."""
    assert [rank.code for rank in ranks] == [0] * len(ranks), "\n".join(rank.said for rank in ranks)
    return [rank.said for rank in ranks]


def free_port() -> int:
    """Find a free port outside the system's range, because gloo takes many ports from that range meanwhile."""
    while True:
        with suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", random.randrange(15_000, 32_000)))
            return listener.getsockname()[1]


def as_torchrun(rank: int, size: int, port: int) -> dict[str, str]:
    """The environment of a rank on one machine."""
    values = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    return {"MASTER_ADDR": "127.0.0.1"} | {name: str(value) for name, value in values.items()}


def _rank(act: Callable[[], object], environment: dict[str, str], said: str) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a server that a sweep of another test started blocks Ctrl-C
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(output, number)
    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        del os.environ[name]
    os.environ.update(environment)
    faulthandler.dump_traceback_later(HANGS, file=output)
    gc.freeze()  # or every collection would scan the imported modules
    act()


def run_all(runs: list[RunConfig]) -> None:
    """Train several runs one after the other in one launch."""
    with exit_with_message(), session(runs) as (ranks, display):
        for run in runs:
            bring_to_end(run, display, ranks)


def variant(*overrides: str, results: Path) -> RunConfig:
    """The run of a command line, with its results elsewhere."""
    return replace(configuration(*overrides), results_dir=str(results))


def assert_same(path: Path, expected: Path) -> None:
    """Check that two runs have the same rows and the same final state, bit for bit."""
    assert timeless(path) == timeless(expected)
    assert _same(_final_state(path), _final_state(expected))


def _final_state(path: Path) -> dict:
    """A run's checkpoint, except values that depend on the clock."""
    folder = path / "checkpoint" / str(rounds(path / "checkpoint")[0])
    state = {file.name: read_checkpoint(file) for file in folder.iterdir()}
    for name in ("seconds", "metrics_size"):
        del state["shared.pt"][name]
    return state


def _same(one: object, other: object) -> bool:
    """Whether nested dicts are equal, tensors bit for bit and of the same dtype."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


def results_of(folder: Path, size: int, act: Callable[[], Any]) -> list[Any]:
    """Run `act` on every rank of a process group. Returns their results."""
    outputs(spawn(folder, size, partial(_in_a_group, folder, size, act)))
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)]


def _in_a_group(folder: Path, size: int, act: Callable[[], object]) -> None:
    place, rank, patience = f"file://{folder}/store", my_rank(), timedelta(seconds=120)
    dist.init_process_group("gloo", place, rank=rank, world_size=size, timeout=patience)
    torch.save(act(), folder / f"{rank}.pt")
    # No model may outlive the group. DDP would destroy the group with it while it holds the interpreter's lock.
    # gloo's thread, which still has a tensor of the last collective, may wait for this lock.
    dist.destroy_process_group()


def torch_optimizer(update: Update, params: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    if isinstance(update, SGD):
        return torch.optim.SGD(params, LR, update.momentum, weight_decay=update.weight_decay)
    assert isinstance(update, Adam | AMSGrad)
    kind, betas = torch.optim.AdamW if update.decoupled else torch.optim.Adam, (update.beta1, update.beta2)
    return kind(params, LR, betas, update.nu, update.weight_decay, isinstance(update, AMSGrad))


def error_of(act: Callable[[], object]) -> str:
    """Return the error that `act` raises, as text."""
    try:
        act()
    except (ValueError, RuntimeError, FloatingPointError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@contextmanager
def watch(note: Callable[[str, int], object]) -> Iterator[None]:
    """Call `note` for every collective, with its name and the bytes that this rank hands in or is given."""

    def watching(name: str, method: Callable) -> Callable:
        def call(group: dist.ProcessGroup, *arguments: Any, **options: Any) -> object:
            handed, given = flow(name, group, *arguments, *options.values())
            note(name, nbytes(handed) or nbytes(given))
            return method(group, *arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in METHODS & vars(dist.ProcessGroup).keys():
            patch.setattr(dist.ProcessGroup, name, watching(name, getattr(dist.ProcessGroup, name)))
        yield


@contextmanager
def small_shards() -> Iterator[None]:
    """Make vectors of 32 coordinates long enough for several servers with several tiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consistency, "SHARDED_FROM", 1)
        patch.setattr(shard, "LEAST", 8)
        patch.setattr(tiles, "TILE", 8)
        yield


def call_within(context: Callable, act: Callable, *given: object) -> object:
    with context():
        return act(*given)


def at_round(round: int, rank: int, do: Callable[[], object], act: Callable[[], None]) -> None:
    """Call `act`, with `do` on one rank before round `round`."""
    with before_round(round, do if my_rank() == rank else bool):
        act()


def my_rank() -> int:
    return int(os.environ.get("RANK", 0))


def kill() -> None:
    """Kill this process, as a lack of memory or a failing machine does."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    """Send Ctrl-C to this process."""
    signal.raise_signal(signal.SIGINT)
