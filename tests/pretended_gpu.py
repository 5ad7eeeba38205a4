"""A GPU that computes nothing: its tensors have shape, dtype and device, but no values.

Torch's fake tensors check what CUDA's kernels check: mixing CPU and GPU tensors raises an error, and so does any wait
for a number on the GPU (`.item()`, `.tolist()`, `bool()`, a boolean index, `nonzero`). CPU tensors are computed for
real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from algorithms.compressors.packing import table

GPU = torch.device("cuda", 0)


class PretendedGpu(TorchDispatchMode):
    """Provides device `cuda` in a with-block. `crossings` are the copies between it and the CPU, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.crossings: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        given = tree_leaves((args, kwargs))
        if not any(_is_gpu(one) for one in given):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if any(_is_on_cpu(one) for one in tree_leaves(result)):
            self.crossings.append("to the CPU")
        # A scalar travels with a kernel's arguments. Everything else is copied, also an index.
        elif any(_is_on_cpu(one) and (one.dim() or func._overloadpacket in _COPIES) for one in given):
            self.crossings.append("to the GPU")
        return result


_COPIES = {torch.ops.aten._to_copy, torch.ops.aten.copy_}


def _is_on_cpu(one: Any) -> bool:
    return isinstance(one, Tensor) and one.device.type == "cpu"


def _is_gpu(one: Any) -> bool:
    return getattr(one if isinstance(one, torch.device) else getattr(one, "device", None), "type", "") == "cuda"


_GUARDED = ("__getitem__", "__setitem__", "__invert__", "contiguous", "copy_")
"""Methods that first call a CUDA library, which may be missing."""


def _by_shape(name: str, gpu: PretendedGpu, fake: FakeTensorMode) -> Callable[..., Any]:
    """Return a method of tensors that computes only the shape of its result."""
    whole = getattr(Tensor, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not _is_gpu(self):
            return whole(self, *args, **kwargs)
        others = [one for one in tree_leaves(args) if isinstance(one, Tensor)]
        if name == "__getitem__" and any(one.dtype == torch.bool for one in others):
            raise RuntimeError("a boolean index: the GPU is waited for, to know how many there are")
        gpu.crossings += ["to the GPU" for one in others if _is_on_cpu(one) and (one.dim() or name == "copy_")]
        with unset_fake_temporarily():
            result = whole(*tree_map(_shape, (self, *args)), **kwargs)
        if name == "copy_":
            return self
        return None if result is None else FakeTensor(fake, result, self.device)

    return method


def _shape(one: Any) -> Any:
    """Replace a tensor by one without values, on device `meta`. Other values stay."""
    if not isinstance(one, Tensor):
        return one
    return torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")


@pytest.fixture
def gpu() -> Iterator[PretendedGpu]:
    """A GPU for a test. torch's settings are restored after it."""
    before = [getattr(torch.backends.cudnn, name) for name in ("deterministic", "allow_tf32")]
    tf32 = torch.backends.cuda.matmul.allow_tf32
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, PretendedGpu() as gpu, ExitStack() as patches:
        for name in _GUARDED:
            patches.enter_context(patch.object(FakeTensor, name, _by_shape(name, gpu, fake), create=True))
        yield gpu
        table.cache_clear()  # drop tables made for this GPU
    torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = before
    torch.backends.cuda.matmul.allow_tf32 = tf32
