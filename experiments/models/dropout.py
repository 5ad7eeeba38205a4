"""Dropout whose masks are drawn by name."""

import torch
from torch import Tensor, nn

from algorithms.utils.seeding import keyed_seed


class KeyedDropout(nn.Module):
    """Sets a share p of its input to zero in training mode and multiplies the rest by 1/(1 − p).

    The masks of a layer come from a generator of its own, which `key_masks` starts anew before a forward pass, so
    that they depend on that name and on the layer alone: not on torch's global generator, on other layers, or on
    what was drawn before. It draws where the input lies; a GPU's masks are others than a CPU's.
    Raises ValueError where p is not in [0, 1), and RuntimeError in training mode without a name.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout={p}: a share of at least 0, below 1")
        self.p = p
        self._seed: int | None = None
        self._generator: torch.Generator | None = None

    def key(self, seed: int) -> None:
        """Draw the next masks from this seed."""
        self._seed = seed

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        if self._seed is not None:
            if self._generator is None or self._generator.device != x.device:
                self._generator = torch.Generator(x.device)
            self._generator.manual_seed(self._seed)
            self._seed = None
        if self._generator is None:
            raise RuntimeError("dropout without a name to draw its masks by: call key_masks first")
        kept = torch.empty_like(x).bernoulli_(1 - self.p, generator=self._generator)
        return x * kept / (1 - self.p)


def key_masks(module: nn.Module, *name: int | str) -> None:
    """Let the masks of a module's next forward pass depend on `name`, such as (seed, worker, round), alone."""
    layers = [layer for layer in module.modules() if isinstance(layer, KeyedDropout)]
    for number, layer in enumerate(layers):
        layer.key(keyed_seed("dropout", *name, number))
