"""Four bits a coordinate."""

from dataclasses import dataclass

from torch import Tensor

from ..utils.seeding import MessageKey
from .group_codes import GroupCodes
from .shard import Shard


@dataclass(frozen=True)
class Int4(GroupCodes):
    """C(x) = ‖x_b‖∞ times the nearest multiple of 1/7, in groups b of B neighbours: 4d + 32⌈d/B⌉ bits.

    Halfway goes to the even multiple. Payload: two codes a byte and a float a group. The worst group has one
    coordinate at its maximum and the others at 1/14 of it, so that π = 196/(195 + B): 0.757 for B = 64.

    Source: LoCo (Xie et al. 2024) and DeepSpeed's 4-bit messages, whose symmetric scale is recalled to be another,
    16/(2‖x_b‖∞), which makes 7/8 of a positive maximum.
    """

    width = 4

    def pi(self, d: int) -> float:
        return 196 / (195 + min(self.block, d))

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        return (shares * self.top).round()
