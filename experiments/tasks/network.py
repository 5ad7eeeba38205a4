"""The base of tasks that train a network."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from algorithms.core.algorithm import Algorithm
from experiments.models.flat import FlatModel
from experiments.models.initial import initialise


class NetworkTask(ABC):
    """A task that trains a network in float32.

    `precision` applies to convolutions and products: `tf32` rounds their inputs to 10 bits on a GPU, `bf16` is
    autocast. Parameters, statistics and messages stay float32.
    """

    dtype = torch.float32
    devices = ("cpu", "cuda")

    def __init__(
        self, module: nn.Module, ids: Sequence[int], seed: int, device: torch.device, precision: str
    ) -> None:
        initialise(module, seed)
        self.model = FlatModel(module, device)
        self.d, self.sizes, self.layout = self.model.d, self.model.sizes, self.model.layout
        self.seed, self.device, self._ids, self._precision = seed, device, ids, precision
        self._initial, self._initial_statistics = self.model.vector.clone(), self.model.statistics.clone()
        if device.type == "cuda":
            # Otherwise resuming would change the numbers. Flash attention's backward pass adds by atomics and repeats
            # only with deterministic=true.
            torch.backends.cudnn.deterministic = True
            # With bf16 too, everything outside autocast is float32, such as a method's own products.
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"

    def start(self) -> Tensor:
        return self._initial

    def start_statistics(self) -> Tensor:
        return self._initial_statistics.expand(len(self._ids), -1).clone()

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        return self.gradients_at(x.unsqueeze(1), statistics, t)

    @abstractmethod
    def gradients_at(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """Return `gradients` at one model per worker [T, W, d], or at one for all [T, 1, d]."""

    def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        self.model.module.eval()
        trials = []
        for model, own in zip(x, statistics, strict=True):
            self.model.vector.copy_(model)
            self.model.statistics.copy_(own)
            trials.append(self._evaluate())
        return {name: torch.stack([trial[name] for trial in trials]) for name in trials[0]}

    @abstractmethod
    def _evaluate(self) -> dict[str, Tensor]:
        """Measure the network at its present parameters and statistics."""

    def step_unit(self, algorithm: Algorithm) -> float:
        return 1.0

    def _gradients(self, x: Tensor, statistics: Tensor, loss: Callable[[int], Tensor]) -> tuple[Tensor, Tensor]:
        """Gradients [T, W, d] at models [T, W or 1, d], and new statistics. loss(i): of the i-th worker."""
        gradients, statistics = x.new_empty(*statistics.shape[:2], self.d), statistics.clone()
        self.model.module.train()
        for trial in range(len(x)):
            for place in range(len(self._ids)):
                if place < x.shape[1]:  # else it is set already
                    self.model.vector.copy_(x[trial, place])
                self.model.statistics.copy_(statistics[trial, place])
                self.model.gradient(loss(place), gradients[trial, place])
                statistics[trial, place] = self.model.statistics
        return gradients, statistics

    def _train_loss(self, parts: Iterable[Tensor]) -> dict[str, Tensor]:
        """Add up parts of the training loss. Return the loss and the norm of its gradient."""
        loss = self.model.vector.new_zeros((), dtype=torch.float64)
        gradient, part = torch.zeros_like(self.model.vector), torch.empty_like(self.model.vector)
        for some in parts:
            self.model.gradient(some, part)
            gradient += part
            loss += some.detach()
        return {"train_loss": loss, "grad_norm": torch.linalg.vector_norm(gradient)}

    def _scores(self, inputs: Tensor) -> Tensor:
        """The network's output as float32."""
        # A cache would keep casts of old parameters, and addresses inside a captured graph.
        low = torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)
        with low if self._precision == "bf16" else contextlib.nullcontext():
            return self.model.module(inputs).float()
