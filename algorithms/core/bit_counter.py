"""Where communication is counted."""

from dataclasses import dataclass, field

import torch

from .algorithm import Algorithm


@dataclass
class BitCounter:
    """Cumulative communication of one worker: bits up are what it sends to the server, bits down what it receives.

    Bits are counted as the literature does (a float is 32 bits, whatever the run's dtype); `payload_bytes` is the
    physical size, both directions together, of the tensors that a cluster would send in the run's own dtype.
    """

    bits_up: int = 0
    bits_down: int = 0
    payload_bytes: int = 0

    @property
    def bits(self) -> int:
        """Both directions."""
        return self.bits_up + self.bits_down

    def count(self, algorithm: Algorithm, d: int, t: int, dtype: torch.dtype) -> None:
        """Add round t of an algorithm on d coordinates."""
        for stage in algorithm.stages(t):
            width = stage.width(d)
            self.bits_up += stage.uplink.bits(width, t)
            self.bits_down += stage.downlink.bits(width, t)
            for channel in (stage.uplink, stage.downlink):
                self.payload_bytes += channel.payload_bytes(width, t, dtype)


@dataclass
class GroupedBitCounter(BitCounter):
    """The communication of all parameter groups together, and of each by its number in `groups`."""

    groups: list[BitCounter] = field(default_factory=list)

    def count_group(self, number: int, algorithm: Algorithm, d: int, t: int, dtype: torch.dtype) -> None:
        self.groups[number].count(algorithm, d, t, dtype)
        self.count(algorithm, d, t, dtype)
