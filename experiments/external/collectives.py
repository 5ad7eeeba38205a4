"""What crosses torch.distributed, counted where collectives are called."""

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

Flow = Callable[[dist.ProcessGroup, tuple[Any, ...]], tuple[Tensors, Tensors]]
"""Of a group and the arguments of one of its methods: what this process hands in, and what it is given back."""


@dataclass
class Collectives:
    """The bytes that this process handed to collectives and was given back, by the group's method that was called.

    They are those of the tensors: an all-reduce of d floats is 4d handed in and 4d given back, however a ring or a
    tree moves them; of what is gathered a process's own part counts among what it is given back; a broadcast is
    handed in by its root and given back to all others.
    """

    handed: Counter[str] = field(default_factory=Counter)
    given: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)  # what follows a collective may run in a thread of the backend's

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count every collective that Python calls on any process group of this process within.

        `torch.distributed.all_reduce` and all others end in a method of the group, wherever and by whatever name they
        were imported, so that a hook needs no change. Those that torch's C++ calls by itself, as
        DistributedDataParallel without a hook does, are not seen.
        """
        before = {name: method for name, method in vars(dist.ProcessGroup).items() if name in FLOWS}
        for name in before:
            setattr(dist.ProcessGroup, name, self._counted(name, getattr(dist.ProcessGroup, name)))
        try:
            yield
        finally:
            for name, method in before.items():
                setattr(dist.ProcessGroup, name, method)

    def _counted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(group: dist.ProcessGroup, *arguments: Any, **options: Any) -> Any:
            handed, given = FLOWS[name](group, (*arguments, *options.values()))
            with self._lock:
                self.handed[name] += nbytes(handed)
                self.given[name] += nbytes(given)
                self.calls[name] += 1
            return method(group, *arguments, **options)

        return call


def nbytes(tensors: Tensors) -> int:
    """The bytes of a tensor, or of all tensors in lists of lists."""
    if isinstance(tensors, Tensor):
        return tensors.numel() * tensors.element_size()
    return sum(map(nbytes, tensors))


def _is_root(group: dist.ProcessGroup, arguments: tuple[Any, ...]) -> bool:
    return group.rank() == getattr(arguments[1], "rootRank", arguments[1])


def _both(group: dist.ProcessGroup, arguments: tuple[Any, ...]) -> tuple[Tensors, Tensors]:
    return arguments[0], arguments[0]


def _from_root(group: dist.ProcessGroup, arguments: tuple[Any, ...]) -> tuple[Tensors, Tensors]:
    return (arguments[0], ()) if _is_root(group, arguments) else ((), arguments[0])


def _to_root(group: dist.ProcessGroup, arguments: tuple[Any, ...]) -> tuple[Tensors, Tensors]:
    return arguments[0], arguments[0] if _is_root(group, arguments) else ()


def _out(group: dist.ProcessGroup, arguments: tuple[Any, ...]) -> tuple[Tensors, Tensors]:
    return arguments[0], ()


def _in(group: dist.ProcessGroup, arguments: tuple[Any, ...]) -> tuple[Tensors, Tensors]:
    return (), arguments[0]


def _outputs_first(group: dist.ProcessGroup, arguments: tuple[Any, ...]) -> tuple[Tensors, Tensors]:
    return arguments[1], arguments[0]


FLOWS: dict[str, Flow] = {
    "allreduce": _both,
    "allreduce_coalesced": _both,
    "broadcast": _from_root,
    "reduce": _to_root,
    "send": _out,
    "recv": _in,
    "recv_anysource": _in,
    **dict.fromkeys(
        (
            *("allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "_allgather_base"),
            *("all_gather_single", "all_gather_single_coalesced", "gather", "scatter", "reduce_scatter"),
            *("reduce_scatter_tensor_coalesced", "_reduce_scatter_base", "reduce_scatter_single"),
            *("reduce_scatter_single_coalesced", "alltoall", "alltoall_base", "all_to_all_single"),
        ),
        _outputs_first,
    ),
}
"""By method of a process group, under the names of several versions of torch."""
