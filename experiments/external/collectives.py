"""Count the bytes of collectives at torch.distributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import torch.distributed as dist
from torch import Tensor

Tensors = Tensor | Sequence["Tensors"]
"""A tensor, or lists of tensors within lists."""

METHODS = {
    *("allreduce", "allreduce_coalesced", "broadcast", "reduce", "send", "recv", "recv_anysource", "allgather"),
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "_allgather_base", "all_gather_single", "gather"),
    *("all_gather_single_coalesced", "scatter", "reduce_scatter", "reduce_scatter_tensor_coalesced", "alltoall"),
    *("_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_single_coalesced", "alltoall_base"),
    "all_to_all_single",
}
"""Methods of a process group that move tensors, under the names of several versions of torch."""


@dataclass
class Collectives:
    """The bytes that this process passes to collectives and gets back, by the group's method.

    An all-reduce of d floats counts 4d in and 4d out, however a ring or a tree moves them. A gather gives back a
    process's own part too. A broadcast counts in at its root and out at all others.
    """

    inputs: Counter[str] = field(default_factory=Counter)
    outputs: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)  # callbacks may run in a thread of the backend

    @contextmanager
    def count_bytes(self) -> Iterator[None]:
        """Count every collective that Python calls in the with-block, on any process group of this process. Calls of
        torch's C++, as by DistributedDataParallel without a hook, are not seen."""
        before = {name: method for name, method in vars(dist.ProcessGroup).items() if name in METHODS}
        for name in before:
            setattr(dist.ProcessGroup, name, self._count(name, getattr(dist.ProcessGroup, name)))
        try:
            yield
        finally:
            for name, method in before.items():
                setattr(dist.ProcessGroup, name, method)

    def _count(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(group: dist.ProcessGroup, *arguments: Any, **options: Any) -> Any:
            handed, given = flow(name, group, *arguments, *options.values())
            with self._lock:
                self.inputs[name] += nbytes(handed)
                self.outputs[name] += nbytes(given)
            return method(group, *arguments, **options)

        return call


def flow(name: str, group: dist.ProcessGroup, first: Tensors, *others: Any) -> tuple[Tensors, Tensors]:
    """Return the arguments of a group's method that this process passes in, and the ones that it gets back."""
    match name:
        case "allreduce" | "allreduce_coalesced":
            return first, first
        case "broadcast":
            return (first, ()) if _is_root(group, others[0]) else ((), first)
        case "reduce":
            return first, first if _is_root(group, others[0]) else ()
        case "send":
            return first, ()
        case "recv" | "recv_anysource":
            return (), first
    return others[0], first


def _is_root(group: dist.ProcessGroup, options: Any) -> bool:
    return group.rank() == getattr(options, "rootRank", options)


def nbytes(tensors: Tensors) -> int:
    """The bytes of a tensor, or of all tensors in lists of lists."""
    return tensors.nbytes if isinstance(tensors, Tensor) else sum(map(nbytes, tensors))
