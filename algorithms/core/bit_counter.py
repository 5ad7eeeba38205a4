"""Count the communication of workers."""

from dataclasses import dataclass, field
from fractions import Fraction

import torch

from .algorithm import Algorithm
from .participation import Participation


@dataclass
class BitCounter:
    """Cumulative communication of one worker: bits up are what it sends to the server, bits down what it receives.

    Bits are counted as in the literature: a float is 32 bits in every dtype. `payload_bytes` is the size of the
    tensors that a cluster sends in the run's dtype, both directions together.
    If workers are absent, `bits_up` is the mean over all n workers, an exact fraction.
    """

    bits_up: int | Fraction = 0
    bits_down: int | Fraction = 0
    payload_bytes: int | Fraction = 0

    @property
    def bits(self) -> int | Fraction:
        """Bits of both directions."""
        return self.bits_up + self.bits_down

    def count(
        self, algorithm: Algorithm, d: int, t: int, dtype: torch.dtype, present: Participation | None = None
    ) -> None:
        """Add round t of an algorithm on d coordinates. present: who sends; None: all workers."""
        for stage in algorithm.stages(t):
            width = stage.message_size(d)
            up = present.share(t) if present else 1
            down = 0 if present and present.is_silent(stage.uplink, t) else 1
            self.bits_up += up * stage.uplink.bits(width, t)
            self.bits_down += down * stage.downlink.bits(width, t)
            self.payload_bytes += up * stage.uplink.payload_bytes(width, t, dtype)
            self.payload_bytes += down * stage.downlink.payload_bytes(width, t, dtype)


def as_number(count: int | Fraction) -> int | float:
    """Return a count for rows: an int if it is whole, else a float."""
    return int(count) if count.denominator == 1 else float(count)


@dataclass
class TwoLevelBitCounter(BitCounter):
    """Communication of one group of workers with the server, and of one worker inside its group.

    In every round a worker sends its gradient, 32d bits, and receives the mean, 32d bits. It does so twice in a round
    that takes gradients at two models.
    """

    bits_inside: int | Fraction = 0

    def count(
        self, algorithm: Algorithm, d: int, t: int, dtype: torch.dtype, present: Participation | None = None
    ) -> None:
        super().count(algorithm, d, t, dtype, present)
        gradients = 2 if algorithm.looks_back and not algorithm.takes_full_gradient(t) else 1
        self.bits_inside += 2 * 32 * d * gradients


@dataclass
class GroupedBitCounter(BitCounter):
    """Communication of all parameter groups together, and of each in `groups`."""

    groups: list[BitCounter] = field(default_factory=list)
