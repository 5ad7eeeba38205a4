"""A function of tensors replayed as one CUDA graph."""

import gc
from collections.abc import Callable

import torch
from torch import Tensor

_WARM_UPS = 3  # calls before the capture, in which cuDNN and cuBLAS choose and allocate


class Captured:
    """Calls `function` of CUDA tensors by replaying what its kernels were at the first call with these shapes.

    The function must depend on nothing but its arguments and on tensors that stay where they are, and must not wait
    for the GPU. Launching a graph costs one call in place of one for each of its thousands of kernels.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """What the function returns, in memory of its own."""
        graph = self._graph or self._captured(arguments)
        for place, argument in zip(self._arguments, arguments, strict=True):
            place.copy_(argument)
        graph.replay()
        return tuple(result.clone() for result in self._results)

    def _captured(self, arguments: tuple[Tensor, ...]) -> torch.cuda.CUDAGraph:
        gc.collect()  # the graph of an earlier run holds on to its memory by a cycle
        self._arguments = tuple(argument.clone() for argument in arguments)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                self._function(*self._arguments)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._results = self._function(*self._arguments)
        self._graph = graph  # only now: one whose capture failed must not be replayed
        return graph
