"""What tasks that train a network share."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from experiments.models.flat import FlatModel


class NetworkTask(ABC):
    """A task whose model is a network in float32, whose products have the precision `_precision`."""

    dtype = torch.float32
    devices = ("cpu", "cuda")

    model: FlatModel
    device: torch.device
    _initial: Tensor
    _precision: str

    def start(self) -> Tensor:
        """The initial parameters [d], which depend on the seed alone."""
        return self._initial

    def gradients(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """∇f_i(x) [T, W, d] on the batches of round t (from 1) at x [T, d], and the workers' statistics [T, W, b]."""
        return self.gradients_at(x.unsqueeze(1), statistics, t)

    @abstractmethod
    def gradients_at(self, x: Tensor, statistics: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """As `gradients`, at a model a worker [T, W, d], or at one [T, 1, d] for all."""

    def evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        """The columns, each [T], at x [T, d] with worker 0's statistics [T, b]."""
        trials = [self._evaluate(*trial) for trial in zip(x, statistics, strict=True)]
        return {name: torch.stack([trial[name] for trial in trials]) for name in trials[0]}

    @abstractmethod
    def _evaluate(self, x: Tensor, statistics: Tensor) -> dict[str, Tensor]:
        """The measurements of one trial, at x [d] with statistics [b]."""

    def step_unit(self, algorithm: Algorithm) -> float:
        """Step sizes are what they say."""
        return 1.0

    def _train_loss(self, parts: Iterable[Tensor]) -> dict[str, Tensor]:
        """The training loss, of which these are the parts that add up to it, and the norm of its gradient."""
        loss = self.model.vector.new_zeros((), dtype=torch.float64)
        gradient, part = torch.zeros_like(self.model.vector), torch.empty_like(self.model.vector)
        for some in parts:
            self.model.gradient(some, part)
            gradient += part
            loss += some.detach()
        return {"train_loss": loss, "grad_norm": torch.linalg.vector_norm(gradient)}

    def _scores(self, inputs: Tensor) -> Tensor:
        """The network's output as float32."""
        # A cache would hold on to casts of parameters that have changed, and to addresses inside a captured graph.
        low = torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)
        with low if self._precision == "bf16" else contextlib.nullcontext():
            return self.model.module(inputs).float()


def check_counts(precision: str, **counts: int) -> None:
    """Raise ValueError for a count below 1 and a precision that is not resolved."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}={count}: must be at least 1")
    if precision == "auto":
        raise ValueError("precision=auto: experiments.tasks.precision.fast_precision says what that is here")
