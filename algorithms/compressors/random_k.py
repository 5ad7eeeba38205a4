"""Random k: k coordinates drawn at random."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Compressor
from .flags import gather_ragged, ragged_indices
from .shard import Shard, whole_shard
from .top_k import Sparsifier


class Sampled(NamedTuple):
    values: Tensor  # [..., k], in the dtype of x
    seed: Tensor  # int64 [..., 1]; the receiver draws the same indices from it


@dataclass(frozen=True)
class RandomK(Sparsifier):
    """C(x) keeps k coordinates drawn without replacement: k floats and a 64-bit seed, 32k + 64 bits.

    Unscaled it is contractive with π = k/d. `unbiased` scales by d/k: then E C(x) = x with ω = d/k − 1, and it is not
    contractive. Trials of one batch draw the same coordinates, because the draw depends only on (seed, direction,
    worker, round).
    """

    name = "random_k"

    unbiased: bool = False  # scale by d/k

    @property
    def contractive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return not self.unbiased

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Sampled:
        values, _, seed = self._sample(x, shard, key)
        return Sampled(values, seed.to(x.device))

    def decode(self, payload: Sampled, d: int) -> Tensor:
        return self.decode_shard(payload, whole_shard(d))

    def decode_shard(self, payload: Sampled, shard: Shard) -> Tensor:
        values, seed = payload
        indices = self._draw(seed, shard.d).to(values.device)
        if not shard.is_whole:
            here = _lies_in(indices, shard)
            indices = gather_ragged(indices - shard.begin, here, ragged_indices(here, values.shape[-1]))
        return _scatter(values, indices, shard.size)

    def cut(self, payload: Sampled, shard: Shard) -> Sampled:
        here = _lies_in(self._draw(payload.seed, shard.d), shard).to(payload.values.device)
        return Sampled(gather_ragged(payload.values, here, ragged_indices(here)), payload.seed)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        values, indices, _ = self._sample(x, whole_shard(x.shape[-1]), key)
        return _scatter(values, indices, x.shape[-1])

    def bits(self, d: int) -> int:
        return 32 * self.count(d) + 64

    def pi(self, d: int) -> float:
        return Compressor.pi(self, d) if self.unbiased else super().pi(d)  # unbiased has none

    def omega(self, d: int) -> float:
        return d / self.count(d) - 1 if self.unbiased else super().omega(d)

    def _sample(self, x: Tensor, shard: Shard, key: MessageKey | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sent values of x, their indices in the shard, and the seeds on the CPU."""
        if key is None:
            raise ValueError("random_k draws from a key: pass one that names seed, direction, round and workers")
        seed = key.seeds().unsqueeze(-1).expand(*x.shape[:-1], 1)
        indices = self._draw(seed, shard.d).to(x.device)
        here = None if shard.is_whole else _lies_in(indices, shard)
        if here is not None:
            indices = gather_ragged(indices - shard.begin, here, ragged_indices(here))
        values = x.gather(-1, indices)
        values = values * (shard.d / self.count(shard.d)) if self.unbiased else values
        return values if here is None else torch.where(here.any(-1, keepdim=True), values, 0), indices, seed

    def _draw(self, seed: Tensor, d: int) -> Tensor:
        """Draw the coordinates of each seed: int64 [..., k]."""
        k = self.count(d)
        distinct, which = seed.cpu().unique(return_inverse=True)
        generators = [torch.Generator().manual_seed(s) for s in distinct.tolist()]
        draws = [torch.randperm(d, generator=one, device="cpu")[:k] for one in generators]
        return torch.stack(draws)[which.squeeze(-1)]


def _lies_in(indices: Tensor, shard: Shard) -> Tensor:
    return (indices >= shard.begin) & (indices < shard.end)


def _scatter(values: Tensor, indices: Tensor, d: int) -> Tensor:
    return values.new_zeros(*values.shape[:-1], d).scatter_(-1, indices, values)
