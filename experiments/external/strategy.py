"""The interface of external strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.distributed.nn.functional  # if DDP imported it later, its default arguments would hold an open group
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from algorithms.utils.layout import Layout


class Carrier(nn.Module):
    """A model with the parameter tensors of a layout. Its loss Σ_k x_k g_k for a vector g has the gradient g."""

    def __init__(self, x: Tensor, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        self.blocks = nn.ParameterList(part.clone() for part in self._parts(x))

    def forward(self, gradient: Tensor) -> Tensor:
        products = [(x * g).sum() for x, g in zip(self.blocks, self._parts(gradient), strict=True)]
        return torch.stack(products).sum()

    def vector(self) -> Tensor:
        """The parameters x [d]."""
        return torch.cat([block.detach().flatten() for block in self.blocks])

    def _parts(self, vector: Tensor) -> list[Tensor]:
        sizes = [block.size for block in self.layout]
        return [part.view(block.shape) for part, block in zip(vector.split(sizes), self.layout, strict=True)]


class Strategy(ABC):
    """Updates one worker's copy of the model in every round, by itself and by collectives with the others.

    Every rank builds it with a `Carrier` that holds x₁ as its first argument, and with its options.
    """

    @abstractmethod
    def step(self, gradient: Tensor, lr: float) -> None:
        """Move the carrier's parameters by this worker's gradient [d] at them, with step size lr."""


class HookStrategy(Strategy):
    """A communication hook of DistributedDataParallel with an optimizer of torch.

    hook and state: for `register_comm_hook`. optimizer: builds one from parameters; the run sets its step sizes.
    """

    def __init__(
        self,
        carrier: Carrier,
        hook: Callable[..., torch.futures.Future[Tensor]],
        state: object,
        optimizer: Callable[..., torch.optim.Optimizer],
    ) -> None:
        self._model = DistributedDataParallel(carrier)
        self._model.register_comm_hook(state, hook)
        self._optimizer = optimizer(carrier.parameters())

    def step(self, gradient: Tensor, lr: float) -> None:
        self._optimizer.zero_grad()
        self._model(gradient).backward()
        set_step_size(self._optimizer, lr)
        self._optimizer.step()


def set_step_size(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the step size of all of an optimizer's parameters."""
    for group in optimizer.param_groups:
        group["lr"] = lr
