"""Parameter tensors as one flat vector, in the dtype of the algorithms."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor


class Flat:
    """Parameters that require a gradient, as one vector [d]. For 16-bit parameters it is a float32 master copy.

    Raises ValueError for no such parameters, complex or sharded ones, two that start at the same memory, and dtypes
    or devices that do not fit into one vector.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = [param for param in params if param.requires_grad]
        self._frozen = [param for param in params if not param.requires_grad]
        self.shapes = [list(param.shape) if param.requires_grad else "frozen" for param in params]
        if not any(param.numel() for param in self.params):
            raise ValueError("no parameter requires a gradient" + (", except for empty ones" if self.params else ""))
        _check_not_sharded(self.params)
        if any(param.is_complex() for param in self.params):
            raise ValueError("a parameter is complex: store it as torch.view_as_real, two real numbers each")
        places = [at for param in set(self.params) if param.numel() and (at := param.data_ptr())]  # 0: no storage
        if len(set(places)) < len(places):
            raise ValueError("two parameters share memory: use one Parameter for both")
        kinds = {(torch.promote_types(param.dtype, torch.float32), param.device) for param in self.params}
        if len(kinds) > 1:
            raise ValueError("parameters differ in dtype or device: they must fit into one vector")
        [(self.dtype, self.device)] = kinds
        self.sizes = [param.numel() for param in self.params]
        self._stored = {param.dtype for param in self.params}
        self._kinds = [_kind(param) for param in self.params]
        # After such a free, glibc keeps the memory of tiles and chunks. Otherwise every step would page it in again.
        torch.empty(31 * 2**20, dtype=torch.uint8)

    def check(self) -> None:
        """Raise ValueError if a parameter was sharded, converted, resized or moved, or a frozen one no longer is."""
        _check_not_sharded(self.params)
        for number, (param, kind) in enumerate(zip(self.params, self._kinds, strict=True)):
            if _kind(param) != kind:
                was, now = (" ".join(map(str, one)) for one in (kind, _kind(param)))
                raise ValueError(
                    f"parameter {number} was {was} and is {now}: convert, resize and move a model before you make "
                    "its optimizer or DistributedDataParallel"
                )
        if any(param.requires_grad for param in self._frozen):
            raise ValueError(
                "a parameter was frozen at the start and now requires a gradient: make a new optimizer and "
                "DistributedDataParallel, if any"
            )

    def gradient_flags(self) -> int:
        """Return a bit mask: bit i tells whether parameter i has a gradient. A parameter frozen later has none."""
        return sum(1 << number for number, param in enumerate(self.params) if _has_gradient(param))

    def read(self, master: Tensor | None = None) -> Tensor:
        """Return a new vector [d] of the parameters; of `master` where that still rounds to the parameter."""
        x = self._vector(self.params)
        if master is None or not self.is_master:
            return x
        pieces = zip(master.split(self.sizes), self.params, strict=True)
        return torch.where(self._vector([piece.to(param.dtype) for piece, param in pieces]) == x, master, x)

    @torch.no_grad()
    def write(self, x: Tensor) -> None:
        """Set the parameters to a vector [d]."""
        for param, piece in zip(self.params, x.split(self.sizes), strict=True):
            param.copy_(piece.view(param.shape))

    def slices(self) -> list[slice]:
        """Return the slice of every parameter in the vector."""
        return [slice(end - size, end) for end, size in zip(accumulate(self.sizes), self.sizes, strict=True)]

    def zeros(self) -> Tensor:
        """Return a new vector [d] of zeros."""
        return torch.zeros(sum(self.sizes), dtype=self.dtype, device=self.device)

    def gradient(self, scale: Tensor | None = None) -> Tensor:
        """Return a new vector [d] of gradients / `scale`, 0 for missing ones. Raises ValueError for a sparse one."""
        found = zip(self.gradients(), self.params, strict=True)
        gradient = self._vector([torch.zeros_like(param) if grad is None else grad for grad, param in found])
        return gradient if scale is None else gradient / scale.to(self.device)

    def gradients(self) -> list[Tensor | None]:
        """Return every parameter's gradient, or None if missing. Raises ValueError for a sparse one."""
        gradients = [param.grad if _has_gradient(param) else None for param in self.params]
        if any(gradient is not None and gradient.layout is not torch.strided for gradient in gradients):
            raise ValueError(
                "a gradient is sparse, but all are sent as one vector; give torch.nn.Embedding sparse=False"
            )
        return gradients

    @property
    def is_master(self) -> bool:
        """Whether the vector is a master copy with more bits than the parameters."""
        return self._stored != {self.dtype}

    @torch.no_grad()
    def _vector(self, tensors: list[Tensor]) -> Tensor:
        return torch.cat([tensor.reshape(-1).to(self.dtype) for tensor in tensors])


class FlatView:
    """A flat view [d] of tensors, read and written in slices.

    sizes: of all tensors. A tensor None counts as zeros. like: a tensor with the dtype and device for reading.
    divisor: divides the values read. stay: which tensors are not written. `finish` writes tensors that are not
    contiguous.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor | None],
        sizes: Sequence[int],
        like: Tensor,
        divisor: Tensor | None = None,
        stay: Sequence[bool] | None = None,
    ) -> None:
        self._tensors, self._like, self._divisor = tensors, like, divisor
        self._rows = [None if tensor is None else tensor.detach().reshape(-1) for tensor in tensors]
        self._stay = stay or [False] * len(tensors)
        self._ends = list(accumulate(sizes))

    def read(self, begin: int, end: int) -> Tensor:
        found = [
            self._like.new_zeros(stop - start) if row is None else row[start:stop].to(self._like.dtype, copy=stays)
            for row, start, stop, stays in self._overlaps(begin, end)
        ]
        values = found[0] if len(found) == 1 else torch.cat(found)
        return values if self._divisor is None else values / self._divisor

    def write(self, begin: int, values: Tensor) -> None:
        done = 0
        for row, start, stop, stays in self._overlaps(begin, begin + len(values)):
            if row is not None and not stays and row.data_ptr() + start * row.itemsize != values.data_ptr():
                row[start:stop].copy_(values[done : done + stop - start])
            done += stop - start

    def finish(self) -> None:
        for tensor, row in zip(self._tensors, self._rows, strict=True):
            if tensor is not None and row is not None and not tensor.is_contiguous():
                tensor.detach().copy_(row.view(tensor.shape))

    def _overlaps(self, begin: int, end: int) -> Iterator[tuple[Tensor | None, int, int, bool]]:
        """Yield tensors that overlap these coordinates: row, begin and end of the overlap, whether it stays."""
        for number in range(bisect_right(self._ends, begin), len(self._ends)):
            first = self._ends[number - 1] if number else 0
            if first >= end:
                return
            yield self._rows[number], max(begin - first, 0), min(end, self._ends[number]) - first, self._stay[number]


def _has_gradient(param: Tensor) -> bool:
    return param.requires_grad and param.grad is not None


def _kind(param: Tensor) -> tuple[object, ...]:
    return tuple(param.shape), param.dtype, param.device


_OF_SHARDED = ("placements", "_is_flat_param", "_fsdp_flattened", "_fsdp_orig_uid")
"""Attributes of sharded parameters: DTensors, FSDP 1's, and those that `fully_shard` replaced in a module.

Importing their classes would take seconds.
"""


def _check_not_sharded(params: Sequence[Tensor]) -> None:
    if any(hasattr(param, name) for param in params for name in _OF_SHARDED):
        raise ValueError(
            "parameters are sharded (FSDP or tensor parallelism), so no process has the whole gradient; "
            "with FSDP2 on a mesh of replicas use a torch optimizer and compress_replicas"
        )
