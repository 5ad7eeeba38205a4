"""Random numbers by name: what is drawn depends on what it is for, never on what was drawn before."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import torch
from torch import Tensor


def keyed_seed(*name: int | str) -> int:
    """A 63-bit seed that depends on the whole name, such as (seed, purpose, worker, round), and on nothing else."""
    digest = blake2b("/".join(map(str, name)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def shows_heads(chance: float, *name: int | str) -> bool:
    """Whether a coin of this name shows heads, which it does with probability `chance`."""
    return keyed_seed(*name) < chance * 2**63


class MessageKey(NamedTuple):
    """Names one message of one round: what a randomised compressor draws from, the same before and after a resume,
    in one process or in many."""

    seed: int
    direction: str  # "up" or "down"
    round: int  # from 1
    workers: tuple[int, ...] | None = None  # the workers of the worker axis; None for the server's one message

    @classmethod
    def none(cls) -> MessageKey:
        """A key for payloads whose content does not matter."""
        return cls(0, "none", 0)

    def seeds(self) -> Tensor:
        """int64 seeds: [W] for the messages of W workers, [] for the server's."""
        if self.workers is None:
            return torch.tensor(keyed_seed(self.seed, self.direction, "server", self.round), device="cpu")
        seeds = [keyed_seed(self.seed, self.direction, i, self.round) for i in self.workers]
        return torch.tensor(seeds, device="cpu")

    def draw(self, sample: Callable[[torch.Generator], Tensor]) -> Tensor:
        """Call `sample` with each message's own generator, on the CPU, and stack what it draws: [W, n], or [n]."""
        seeds = self.seeds()
        drawn = [sample(torch.Generator().manual_seed(seed)) for seed in seeds.flatten().tolist()]
        return torch.stack(drawn).view(*seeds.shape, -1)
