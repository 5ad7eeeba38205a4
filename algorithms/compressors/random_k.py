"""k coordinates at random."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from algorithms.compressors.sparsifier import Sparsifier
from algorithms.randomness import Key


class Sampled(NamedTuple):
    """The payload of sampled coordinates: the receiver draws the same indices from the seed."""

    values: Tensor  # [..., k], in the dtype of x
    seed: Tensor  # int64 [..., 1]


@dataclass(frozen=True)
class RandomK(Sparsifier):
    """C(x) keeps k coordinates drawn without replacement: k floats and a 64-bit seed, 32k + 64 bits.

    Unscaled it is contractive with π = k/d; `unbiased` scales by d/k, so that E C(x) = x, and is no longer
    contractive. Trials of one batch draw the same coordinates: the draw depends on (seed, direction, worker, round)
    alone.
    """

    name = "random_k"

    unbiased: bool = False  # scale by d/k

    @property
    def contractive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return not self.unbiased

    def encode(self, x: Tensor, key: Key | None = None) -> Sampled:
        values, _, seed = self._sample(x, key)
        return Sampled(values, seed.to(x.device))

    def decode(self, payload: Sampled, d: int) -> Tensor:
        values, seed = payload
        return _scattered(values, self._indices(seed, d).to(values.device), d)

    def __call__(self, x: Tensor, key: Key | None = None) -> Tensor:
        values, indices, _ = self._sample(x, key)
        return _scattered(values, indices, x.shape[-1])

    def bits(self, d: int) -> int:
        return 32 * self.count(d) + 64

    def _sample(self, x: Tensor, key: Key | None) -> tuple[Tensor, Tensor, Tensor]:
        """What is sent of x, the coordinates that it stands for, and the seeds on the CPU."""
        if key is None:
            raise ValueError("random_k draws from a key: pass one that names seed, direction, round and workers")
        seed = key.seeds().unsqueeze(-1).expand(*x.shape[:-1], 1)
        indices = self._indices(seed, x.shape[-1]).to(x.device)
        values = x.gather(-1, indices)
        return values * (x.shape[-1] / values.shape[-1]) if self.unbiased else values, indices, seed

    def _indices(self, seed: Tensor, d: int) -> Tensor:
        """The coordinates each seed stands for: int64 [..., k]."""
        k = self.count(d)
        distinct, which = seed.cpu().unique(return_inverse=True)
        draws = [torch.randperm(d, generator=torch.Generator().manual_seed(s))[:k] for s in distinct.tolist()]
        return torch.stack(draws)[which.squeeze(-1)]


def _scattered(values: Tensor, indices: Tensor, d: int) -> Tensor:
    """Zero vectors [..., d] with values at the indices."""
    return values.new_zeros(*values.shape[:-1], d).scatter_(-1, indices, values)
