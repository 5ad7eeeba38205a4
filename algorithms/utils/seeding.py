"""Random numbers by name: a draw depends only on its name, never on earlier draws."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import torch
from torch import Tensor


def keyed_seed(*name: int | str) -> int:
    """Return a 63-bit seed that depends only on the whole name, such as (seed, purpose, worker, round)."""
    digest = blake2b("/".join(map(str, name)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def shows_heads(chance: float, *name: int | str) -> bool:
    """Toss the coin of this name. It shows heads with probability `chance`."""
    return keyed_seed(*name) < chance * 2**63


class MessageKey(NamedTuple):
    """Names one message of one round. A randomised compressor draws from it, with equal results after a resume and
    for any number of processes."""

    seed: int
    direction: str  # "up" or "down"
    round: int  # from 1
    workers: tuple[int, ...] | None = None  # the workers of the worker axis; None for the server's one message

    @classmethod
    def none(cls) -> MessageKey:
        """Return a key for payloads with unused content."""
        return cls(0, "none", 0)

    def seeds(self) -> Tensor:
        """Return int64 seeds: [W] for the messages of W workers, [] for the server's."""
        if self.workers is None:
            return torch.tensor(keyed_seed(self.seed, self.direction, "server", self.round), device="cpu")
        seeds = [keyed_seed(self.seed, self.direction, i, self.round) for i in self.workers]
        return torch.tensor(seeds, device="cpu")

    def draw(self, sample: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Call `sample` with each message's own generator, on the CPU, and stack the results: [W, n], or [n]."""
        seeds = self.seeds()
        drawn = [sample(torch.Generator().manual_seed(seed)) for seed in seeds.flatten().tolist()]
        return torch.stack(drawn).view(*seeds.shape, -1)
