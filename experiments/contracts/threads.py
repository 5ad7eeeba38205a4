"""What several processes make of the shards that each has of a vector, tried with threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import torch
from torch import Tensor

from algorithms.compressors import Payload, Shardable
from algorithms.compressors.shard import Shard
from algorithms.utils.seeding import MessageKey

PATIENCE = 20  # seconds that a thread waits for others who may have failed


def encoded_apart(compressor: Shardable, x: Tensor, cuts: tuple[int, ...], key: MessageKey) -> list[Payload]:
    """What `encode_shard` makes of every shard of x [..., d], each in a thread that has nothing else of it."""
    meeting = _Meeting(Barrier(len(cuts) - 1), {})
    shards = [_Told(cuts, number, meeting) for number in range(len(cuts) - 1)]
    with ThreadPoolExecutor(len(shards)) as threads:
        own = (x[..., shard.begin : shard.end].clone() for shard in shards)
        return list(threads.map(lambda mine, shard: compressor.encode_shard(mine, shard, key), own, shards))


@dataclass(frozen=True)
class _Meeting:
    """Where threads tell one another."""

    barrier: Barrier
    said: dict[int, Tensor]


@dataclass(frozen=True, eq=False)
class _Told(Shard):
    """A shard of a thread."""

    meeting: _Meeting

    def _of(self, cuts: tuple[int, ...]) -> _Told:
        return _Told(cuts, self.number, self.meeting)

    def _gathered(self, mine: Tensor) -> Tensor:
        return torch.cat(self._from_all(mine), -1)

    def _told(self, numbers: Tensor) -> Tensor:
        return torch.stack(self._from_all(numbers))

    def _from_all(self, mine: Tensor) -> list[Tensor]:
        self.meeting.said[self.number] = mine
        self.meeting.barrier.wait(PATIENCE)
        everything = [self.meeting.said[number] for number in range(len(self.cuts) - 1)]
        self.meeting.barrier.wait(PATIENCE)
        return everything
