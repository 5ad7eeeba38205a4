"""Read how this process was launched (alone, by torchrun or by SLURM), and join the other ranks."""

import gc
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import sleep

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from algorithms.comm.gather_broadcast import LostContact, convert_collective_errors
from common.errors import RunError, UsageError
from common.signals import handle
from experiments.cluster.ranks import Group, Ranks, deadline, shares

_PATIENCE = 3.0  # seconds beyond the time-out, for an answer that is under way
_kept: list[object] = []  # process groups that are still in use
_OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """The place of this process in its launch."""

    rank: int
    size: int
    local_rank: int  # among the processes on this machine
    local_size: int
    address: str  # of the machine of rank 0
    port: int

    def check(self, workers: int, groups: int | None = None) -> None:
        """Raise UsageError if there are more ranks than workers, or ranks cannot share the groups."""
        if workers < self.size:
            raise UsageError(
                f"cluster.workers={workers}: too few for {self.size} ranks, because each needs one or more; start "
                f"{workers} ranks or fewer"
            )
        shares(workers, self.size, groups)


def read_launch() -> Launch | None:
    """Read torchrun's or SLURM's environment; None for a process started alone.

    Raises UsageError if that environment is incomplete.
    """
    try:
        if "TORCHELASTIC_RUN_ID" in os.environ or {"RANK", "WORLD_SIZE"} <= os.environ.keys():
            rank, size, local_rank, local_size, port = map(_read_number, _OF_TORCHRUN)
            if not 0 <= rank < size:
                raise ValueError(f"RANK={rank} with WORLD_SIZE={size}")
            found = Launch(rank, size, local_rank, local_size, os.environ["MASTER_ADDR"], port)
        elif int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)) > 1:  # set by srun alone, and 1 for an interactive shell
            found = _read_slurm()
        else:
            return None
        if not 0 < found.port < 2**16:
            raise ValueError(f"MASTER_PORT={found.port}: must be from 1 to 65535")
        return found
    except KeyError as error:
        raise UsageError(f"{error.args[0]} is not set: start the ranks by torchrun or by srun") from error
    except (ValueError, IndexError) as error:
        raise UsageError(f"the launcher's environment is damaged: {error}; start by torchrun or srun") from error


def _read_number(name: str) -> int:
    return int(os.environ[name])


def _read_slurm() -> Launch:
    """Every task of a job step is a rank. Rank 0 runs on the step's first machine."""
    # The port is the same for all tasks of a step, and another one for another step of the same machine.
    port = 20000 + (_read_number("SLURM_JOB_ID") * 7 + _read_number("SLURM_STEP_ID")) % 12000
    # Of the machines `gpu[07-09,12],login1` the first is gpu07; of `4(x2),3` tasks the machines have 4, 4 and 3.
    machines = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", os.environ["SLURM_STEP_NODELIST"])
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ["SLURM_STEP_TASKS_PER_NODE"])
    tasks = [int(count) for count, times in groups for _ in range(int(times or 1))]
    return Launch(
        rank=_read_number("SLURM_PROCID"),
        size=_read_number("SLURM_STEP_NUM_TASKS"),
        local_rank=_read_number("SLURM_LOCALID"),
        local_size=tasks[_read_number("SLURM_NODEID")],
        address=os.environ.get("MASTER_ADDR") or re.sub(r"\[(\w+)[^\]]*\]", r"\1", machines[0]),
        port=int(os.environ.get("MASTER_PORT", port)),
    )


def _compare_sizes(store: Store, place: Launch) -> None:
    """Raise UsageError if ranks were started with different numbers of ranks."""
    first = int(store.get("0")) if place.rank else place.size  # first, because rank 0 may leave with its store
    store.set(str(place.rank), str(place.size))
    for other in [0] if place.rank else range(1, place.size):
        theirs = int(store.get(str(other))) if other else first
        if theirs != place.size:
            raise UsageError(
                f"WORLD_SIZE: {place.size} on rank {place.rank}, {theirs} on rank {other}; set the same on all ranks"
            )


@contextmanager
def join_ranks(place: Launch | None, device: str, timeout: float) -> Iterator[Ranks]:
    """Connect the ranks of this launch for the with-block: gloo for CPU tensors, NCCL for a GPU's.

    timeout: seconds after which an unanswered collective ends the run.
    Raises RunError if the others cannot be reached. After a time-out the error names the ranks that did not answer.
    """
    if place is None:
        yield Ranks()
        return
    if has_gpu := device.startswith("cuda"):
        torch.cuda.set_device(device)
    unreachable = (
        f"the other ranks could not be reached at {place.address}:{place.port} ({{}}); check that all "
        f"{place.size} were started, that their machines can reach this port, and, if a machine's own name "
        "leads to 127.0.0.1, that GLOO_SOCKET_IFNAME is its network interface"
    )
    within = timedelta(seconds=timeout)
    silence = unreachable.format(f"no answer within {timeout:g} s")
    # torchrun's store outlives its ranks: restarted ranks would find old addresses there.
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    try:
        # No signal and no time-out of torch reaches a thread that waits here. Nothing has to be saved yet.
        with (
            convert_collective_errors(),
            handle(signal.SIG_DFL, (signal.SIGINT, signal.SIGTERM)),
            deadline(timeout + _PATIENCE, silence),
        ):
            if "TORCHELASTIC_RUN_ID" in os.environ:
                store, _, _ = next(rendezvous("env://", place.rank, place.size, timeout=within))
            else:
                store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
                    place.address,
                    place.port,
                    None,
                    place.rank == 0,
                    within,
                    wait_for_workers=False,
                    multi_tenant=True,
                )
            store = PrefixStore(start, store)
            _compare_sizes(PrefixStore("sizes", store), place)
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if has_gpu else "gloo",
                store=store,
                rank=place.rank,
                world_size=place.size,
                timeout=within,
            )
            ranks = Group(place.local_rank)
    except (LostContact, ValueError) as error:
        raise RunError(unreachable.format(error)) from error
    try:
        yield ranks
    except Exception as error:
        if who := ranks.silent_ranks(error):
            raise RunError(f"{who}; {error}") from error
        raise
    gc.collect()  # a DDP module would end its group later, while it holds a lock that gloo's threads need
    group = dist.group.WORLD
    dist.destroy_process_group()
    gc.collect()  # lets go of gloo's threads, which may otherwise abort the interpreter at its end
    # A hook's callback in gloo's thread may still hold the group. If it lets go last, this thread runs the group's
    # destructor, which waits for the thread's own end and aborts the process.
    for _ in range(int(100 * _PATIENCE)):
        if sys.getrefcount(group) == 2:  # `group` and the argument
            return
        sleep(0.01)
    _kept.append(group)
