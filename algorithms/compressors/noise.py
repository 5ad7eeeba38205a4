"""The randomness of stochastic rounding."""

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .shard import Shard


def uniform(name: str, key: MessageKey | None, x: Tensor, shard: Shard) -> Tensor:
    """Uniform numbers in [0, 1) of the shape of x, float64, for the compressor `name`.

    One generator a message, always on the CPU and in double precision: the draw depends on (seed, direction, worker,
    round) alone, not on the device, the dtype of x, its shard or which workers share a process. Trials share it.
    """
    if key is None:
        raise ValueError(f"{name} draws from a key: pass one that names seed, direction, round and workers")
    seeds = key.seeds()
    draws = [
        torch.rand(shard.d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        for seed in seeds.flatten().tolist()
    ]
    drawn = torch.stack(draws).view(*seeds.shape, -1)[..., shard.begin : shard.end]
    return drawn.to(x.device).expand(x.shape)
