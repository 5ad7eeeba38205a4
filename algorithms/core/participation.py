"""Absent and late workers: who sends in a round, and which messages arrive."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

from ..utils.seeding import shows_heads
from .aggregation import Mean, Nothing
from .algorithm import Algorithm, Stage
from .channels import Channel


@dataclass(frozen=True, kw_only=True)
class Participation:
    """Selects the workers of each round. All n take part in round 1, because methods start there.

    From round 2 worker i takes part in round t if its coin shows heads. Every process draws the coin by the key
    (seed, "coin", t, i), which costs no bits. An absent worker sends nothing and keeps its memory and moments.
    It receives what the server sends. A late worker's message of round t arrives in round t + k.

    If workers form groups, `workers` is the number of groups. Errors call one of them `member`.

    chance: probability of heads. absent: (i, first, last), worker i is absent from round `first` to `last`.
    late: (i, k), worker i is late by k rounds.
    """

    workers: int
    seed: int
    chance: float = 1.0
    absent: Collection[tuple[int, int, int]] = ()
    late: Collection[tuple[int, int]] = ()
    member: str = "worker"

    def __post_init__(self) -> None:
        known = f"{self.member} from 0 to {self.workers - 1}"
        for i, first, last in self.absent:
            if i >= self.workers or not 2 <= first <= last:
                raise ValueError(
                    f"cluster.absent: [{i}, {first}, {last}]: give a {known}, the first round of its absence, at "
                    "least 2, and the last"
                )
        for i, k in self.late:
            if i >= self.workers or k < 1 or len(dict(self.late)) < len(self.late):
                raise ValueError(f"cluster.late: [{i}, {k}]: give a {known}, once, and a delay of at least 1 round")

    def senders(self, t: int) -> list[int]:
        """Return the workers that send in round t (from 1)."""
        return [i for i in range(self.workers) if self._sends(i, t)]

    def arrivals(self, t: int) -> list[int]:
        """Return the workers with a message that arrives in round t."""
        late = dict(self.late)
        return [i for i in range(self.workers) if (sent := t - late.get(i, 0)) > 0 and self._sends(i, sent)]

    def exchange_delays(self, algorithm: Algorithm) -> dict[int, int]:
        """Return each late worker's delay, as a number of exchanges."""
        return {i: sum(bool(algorithm.stages(t)) for t in range(1, k + 1)) for i, k in self.late}

    def share(self, t: int) -> Fraction:
        """Return the share of workers that send in round t."""
        return Fraction(len(self.senders(t)), self.workers)

    def is_silent(self, uplink: Channel, t: int) -> bool:
        """Whether the server sends nothing in round t, because it has no messages to average."""
        return uplink.mean_over == "present" and not self.arrivals(t)

    def with_server_mean(self, stage: Stage, x: Tensor, t: int) -> Stage:
        """Return the stage with the server's mean of round t, for messages like x [*T, d]."""
        if stage.uplink.mean_over == "present":
            return stage
        return replace(stage, combine=Mean(self.workers) if self.arrivals(t) else Nothing(torch.zeros_like(x)))  # pyright: ignore

    def check(self, algorithm: Algorithm, rounds: int) -> None:
        """Raise ValueError if a method needs the messages of all workers in time, or cannot use late ones."""
        name, uplink = type(algorithm).__name__, algorithm.uplink
        reason = vars(type(algorithm)).get(
            "needs_all", algorithm.needs_all or "its class does not set needs_all = ''"
        )
        if not reason and not vars(type(uplink)).get("mean_over"):
            reason = f"its channel {type(uplink).__name__} does not set mean_over"
        if not reason and uplink.mean_over == "all" and algorithm.combine != Mean():
            reason = f"{type(uplink).__name__} adds increments, and {algorithm.combine} is not their mean"
        if not reason and hasattr(algorithm.downlink.compressor, "workers"):
            reason = f"its downlink's {algorithm.downlink.compressor} can send only a mean over all workers"
        if reason:
            raise ValueError(
                f"cluster.participation, absent, late: {name} needs the messages of all workers in time, because "
                f"{reason}; set these keys to null"
            )
        codecs = [[stage.uplink.codec(t) for stage in algorithm.stages(t)] for t in range(1, rounds + 1) if self.late]
        for i, k in self.late:
            if codecs[k:] != codecs[:-k]:
                raise ValueError(
                    f"cluster.late: [{i}, {k}]: the method sends no message of the same form {k} rounds later; "
                    "take a multiple of the rounds between exchanges, and no dense rounds (dense_start=false)"
                )

    def _sends(self, i: int, t: int) -> bool:
        if any(i == who and first <= t <= last for who, first, last in self.absent):
            return False
        return t == 1 or i in _heads(self.seed, self.chance, self.workers, t)


@lru_cache(maxsize=64)  # a round asks several times, also for earlier rounds
def _heads(seed: int, chance: float, workers: int, t: int) -> frozenset[int]:
    """Return the workers that toss heads in round t."""
    return frozenset(i for i in range(workers) if shows_heads(chance, seed, "coin", t, i))
