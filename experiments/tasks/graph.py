"""A function of tensors replayed as one CUDA graph."""

import gc
from collections.abc import Callable

import torch
from torch import Tensor

_WARM_UPS = 3  # calls before the capture, in which cuDNN and cuBLAS choose and allocate


class CudaGraph:
    """Calls `function` of CUDA tensors by replaying the kernels of its first call with these shapes.

    The function must depend only on its arguments and on tensors that stay in place, and must not wait for the GPU. A
    graph takes one launch instead of one for each of its thousands of kernels.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Return the function's results, in memory of their own."""
        graph = self._graph or self._capture(arguments)
        for place, argument in zip(self._arguments, arguments, strict=True):
            place.copy_(argument)
        graph.replay()
        return tuple(result.clone() for result in self._results)

    def _capture(self, arguments: tuple[Tensor, ...]) -> torch.cuda.CUDAGraph:
        gc.collect()  # a cycle keeps the memory of an earlier run's graph
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
        self._graph = graph  # only now: a failed capture must not be replayed
        return graph
