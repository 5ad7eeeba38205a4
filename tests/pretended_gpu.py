"""A GPU that computes nothing: tensors of its device know shape, dtype and device, and refuse to be looked at.

Torch's fake tensors are checked as CUDA's kernels check theirs: an operation of a CPU tensor and one of the GPU
raises, and so does whatever would wait for the GPU to know a number (`.item()`, `.tolist()`, `bool()`, a boolean
index, `nonzero`). What lies on the CPU is computed for real.
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
    """While it is entered, device `cuda` is there. `crossings` are the copies between it and the CPU, in order."""

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
        # A scalar goes along with a kernel's arguments; anything else is copied, an index too.
        elif any(_is_on_cpu(one) and (one.dim() or func._overloadpacket in _COPIES) for one in given):
            self.crossings.append("to the GPU")
        return result


_COPIES = {torch.ops.aten._to_copy, torch.ops.aten.copy_}


def _is_on_cpu(one: Any) -> bool:
    return isinstance(one, Tensor) and one.device.type == "cpu"


def _is_gpu(one: Any) -> bool:
    return getattr(one if isinstance(one, torch.device) else getattr(one, "device", None), "type", "") == "cuda"


_GUARDED = ("__getitem__", "__setitem__", "__invert__", "contiguous", "copy_")
"""What asks a CUDA library first, which may not be there."""


def _by_shape(name: str, gpu: PretendedGpu, fake: FakeTensorMode) -> Callable[..., Any]:
    """A method of tensors of whose result the shape alone is made."""
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
    """A tensor's, on the device of those that have nothing else; everything else as it is."""
    if not isinstance(one, Tensor):
        return one
    return torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")


@pytest.fixture
def gpu() -> Iterator[PretendedGpu]:
    """A GPU for a test, after which torch has its settings again."""
    before = [getattr(torch.backends.cudnn, name) for name in ("deterministic", "allow_tf32")]
    tf32 = torch.backends.cuda.matmul.allow_tf32
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, PretendedGpu() as gpu, ExitStack() as patches:
        for name in _GUARDED:
            patches.enter_context(patch.object(FakeTensor, name, _by_shape(name, gpu, fake), create=True))
        yield gpu
        table.cache_clear()  # what was made once for the GPU is none's any more
    torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = before
    torch.backends.cuda.matmul.allow_tf32 = tf32
