"""Dropout whose masks are drawn by name."""

import torch
from torch import Tensor, nn

from algorithms.utils.seeding import keyed_seed


class KeyedDropout(nn.Module):
    """Sets a share p of its input to zero in training mode and multiplies the rest by 1/(1 − p).

    The masks of a layer depend on the name that `key_masks` gave before the forward pass and on the layer alone, not
    on torch's global generator. They are drawn where the input lies; a GPU's masks are others than a CPU's.
    Raises ValueError where p is not in [0, 1).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout={p}: a share of at least 0, below 1")
        self.p, self.seed = p, 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        generator = torch.Generator(x.device).manual_seed(self.seed)
        return x * torch.empty_like(x).bernoulli_(1 - self.p, generator=generator) / (1 - self.p)


def key_masks(module: nn.Module, *name: int | str) -> None:
    """Let the masks of a module's next forward pass depend on `name`, such as (seed, worker, round), alone."""
    layers = (layer for layer in module.modules() if isinstance(layer, KeyedDropout))
    for number, layer in enumerate(layers):
        layer.seed = keyed_seed("dropout", *name, number)
