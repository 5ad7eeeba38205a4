"""A GPU that computes nothing: tensors of its device know shape, dtype and device, and refuse to be looked at.

Torch's fake tensors are checked as CUDA's kernels check theirs: an operation of a CPU tensor and one of the GPU
raises, and so does whatever would wait for the GPU to know a number (`.item()`, `.tolist()`, `bool()`, a boolean
index, `nonzero`). What lies on the CPU is computed for real.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

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
        there, here = (
            {one.device.type for one in tree_leaves(node) if isinstance(one, Tensor)} for node in (given, result)
        )
        if there - {"cuda"} and func._overloadpacket in _COPIES or "cpu" in here:
            self.crossings.append("to the CPU" if here == {"cpu"} else "to the GPU")
        return result


_COPIES = {torch.ops.aten._to_copy, torch.ops.aten.copy_}


def _is_gpu(one: object) -> bool:
    return (isinstance(one, Tensor) and one.device.type == "cuda") or (
        isinstance(one, torch.device) and one.type == "cuda"
    )


@contextmanager
def pretended_gpu() -> Iterator[PretendedGpu]:
    """A GPU for the with-block."""
    with FakeTensorMode(allow_non_fake_inputs=True), PretendedGpu() as gpu:
        yield gpu
