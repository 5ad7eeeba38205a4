"""Several algorithms, each on its own part of the vector. Their payloads share one message per direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from ..compressors.base import Payload
from ..compressors.blocks import Parts
from ..compressors.shard import whole_shard
from ..utils.seeding import keyed_seed
from .algorithm import Algorithm, Payloads, overridden
from .channels import Channel

States = tuple[Any, ...]  # one per part

_NOT_USED = ("stages", "server", "replica", "local_step", "sync_workers", "takes_full_gradient")
"""Optimizer and hooks work as if a method had these functions of `Algorithm`."""


@dataclass(frozen=True)
class GroupedChannels:
    """One direction of grouped algorithms."""

    channels: tuple[Channel, ...]
    sizes: tuple[int, ...]

    def codec(self, t: int) -> Parts:
        return Parts(tuple(channel.codec(t) for channel in self.channels), self.sizes)

    def payload_bytes(self, d: int, t: int, dtype: torch.dtype) -> int:
        """Return the payload's bytes in round t, for vectors of the run's dtype."""
        parts = zip(self.channels, self.sizes, strict=True)
        return sum(channel.payload_bytes(size, t, dtype) for channel, size in parts)


@dataclass(frozen=True)
class GroupedAlgorithms:
    """Algorithms on consecutive parts of a vector, of the given sizes: parameter groups.

    Every part works as it would alone, with its own seed; part 0 has the given one. Only `clip` is common: all parts
    have the same, and aggregates are clipped by the norm of the whole vector.
    """

    parts: tuple[Algorithm, ...]
    sizes: tuple[int, ...]

    @property
    def uplink(self) -> GroupedChannels:
        return GroupedChannels(tuple(part.uplink for part in self.parts), self.sizes)

    @property
    def downlink(self) -> GroupedChannels:
        return GroupedChannels(tuple(part.downlink for part in self.parts), self.sizes)

    def start_workers(self, x: Tensor, ids: Tensor) -> States:
        return tuple(part.start_workers(one, ids) for part, one in self._zip_parts(x.split(self.sizes, -1)))

    def start_server(self, x: Tensor) -> States:
        return tuple(part.start_server(one) for part, one in self._zip_parts(x.split(self.sizes, -1)))

    def start_replica(self, x: Tensor) -> States:
        return tuple(part.start_replica(one) for part, one in self._zip_parts(x.split(self.sizes, -1)))

    def worker(
        self, gradient: Tensor, states: States, replicas: States, lrs: Sequence[float], t: int, seed: int
    ) -> tuple[Payload, States]:
        """Return the payloads of all parts for gradients [W, d], and the new states. lrs: a step size per part."""
        given = self._zip_parts(gradient.split(self.sizes, -1), states, replicas, lrs)
        sent = [part.worker(*own, t, seed_of_part(seed, number)) for number, (part, *own) in enumerate(given)]
        payloads, states = zip(*sent, strict=True)
        return payloads, states

    def server(self, payloads: Payloads, states: States, t: int, seed: int) -> tuple[Payload, States]:
        of_parts = payloads if isinstance(payloads, tuple) else map(list, zip(*payloads, strict=True))
        aggregates = [part.aggregate(*given, t) for part, *given in self._zip_parts(of_parts, states)]
        norm, given = self._norm(aggregates), self._zip_parts(aggregates, states)
        sent = [
            part.server_message(*own, t, seed_of_part(seed, number), norm)
            for number, (part, *own) in enumerate(given)
        ]
        answers, states = zip(*sent, strict=True)
        return answers, states

    def replica(self, payloads: Payload, states: States, lrs: Sequence[float], t: int) -> States:
        signals = [part.receive(*given, t) for part, *given in self._zip_parts(payloads, states)]
        norm = self._norm(signals)
        return tuple(part.apply_signal(*given, t, norm) for part, *given in self._zip_parts(signals, states, lrs))

    def without_packing(self) -> Self:
        """Return these algorithms with unpacked messages and equal numbers; see `Algorithm.without_packing`."""
        return replace(self, parts=tuple(part.without_packing() for part in self.parts))

    def check(self) -> None:
        """Raise ValueError if a part cannot take its coordinates, or overrides one of `_NOT_USED`."""
        for part, size in zip(self.parts, self.sizes, strict=True):
            if own := overridden(type(part), Algorithm, *_NOT_USED):
                raise ValueError(
                    f"{type(part).__name__}: overrides {own}, which optimizer and hooks do not use; run it in the "
                    "harness (experiments.run)"
                )
            part.check(size)

    def _norm(self, vectors: Sequence[Tensor]) -> Tensor | None:
        """Return ‖(u₁, …, u_G)‖₂ [1] to clip several parts by, else None."""
        if len(self.parts) == 1 or self.parts[0].clip is None:
            return None
        together = torch.cat(list(vectors), -1)
        return whole_shard(together.shape[-1]).norm(together)

    def _zip_parts(self, *given: Any) -> zip[tuple[Any, ...]]:
        return zip(self.parts, *given, strict=True)


def seed_of_part(seed: int, part: int) -> int:
    return keyed_seed(seed, "part", part) if part else seed
