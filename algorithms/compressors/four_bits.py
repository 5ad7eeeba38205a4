"""Four bits a coordinate: equally spaced levels, or levels that are denser near zero."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .packing import table, unpack_values
from .scaled_codes import Codes, GroupCodes
from .shard import Shard


class _FourBitCodes(GroupCodes):
    """Codes without an unused value. Codes of four bits are read two at a time."""

    def _unpack(self, payload: Codes, d: int) -> Tensor:
        if self.width != 4:
            return super()._unpack(payload, d)
        levels = torch.arange(-self.top, 16 - self.top, device=payload.codes.device, dtype=torch.int32)
        return unpack_values(payload.codes, self._shares(levels, payload.scale.dtype), d)


@dataclass(frozen=True)
class Int4(_FourBitCodes):
    """C(x) = ‖x_b‖∞ times the nearest multiple of 1/7, in groups b of B neighbours: 4d + 32⌈d/B⌉ bits.

    Ties go to the even multiple. The worst group has one coordinate at its maximum and the others at 1/14 of it, so
    π = 196/(195 + B): 0.757 for B = 64.

    Source: LoCo (Xie et al. 2024) and DeepSpeed's 4-bit messages. DeepSpeed's symmetric scale, as recalled, is
    16/(2‖x_b‖∞), so that a positive maximum becomes 7/8 of itself.
    """

    width = 4

    def pi(self, d: int) -> float:
        return 196 / (195 + min(self.block, d))

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        return shares.mul_(self.top).round_()


@dataclass(frozen=True)
class FourBits(_FourBitCodes):
    """C(x) = ‖x_b‖∞ times the nearest of 16 `values`, in groups b of B neighbours: 4d + 32⌈d/B⌉ bits.

    Ties go to the lower value.
    """

    values: ClassVar[tuple[float, ...]]
    """Values of the levels −7 to 8, ascending, with 0 for level 0 and 1 for level 8."""

    width = 4

    def pi(self, d: int) -> float:
        """Return π of the worst group: one coordinate at the maximum, all others halfway between the same two values.

        1 − π is the largest (ε² + (B−1)δ²)/(1 + (B−1)m²) over all neighbours m − δ and m + δ. ε is the error of a
        negative maximum.
        """
        others, end = min(self.block, d) - 1, 1 + self.values[0]
        halfway = (((a + b) / 2, (b - a) / 2) for a, b in pairwise(self.values))
        return 1 - max((end**2 + others * wrong**2) / (1 + others * at**2) for at, wrong in halfway)

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        halfway = tuple((a + b) / 2 for a, b in pairwise(self.values))
        return torch.bucketize(shares, table(halfway, shares.dtype, shares.device), out_int32=True) - self.top

    def _shares(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        return table(self.values, dtype, levels.device)[levels + self.top]


@dataclass(frozen=True)
class Nf4(FourBits):
    """C(x) = ‖x_b‖∞ times the nearest NormalFloat, in groups b of B neighbours: 4d + 32⌈d/B⌉ bits.

    The 16 values are quantiles of the normal distribution, divided by the largest, 8 above zero and 7 below.
    π = 0.885 for B = 64, 0.792 for 128, 0.654 for 256.

    Source: Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, 2023 (arXiv 2305.14314), appendix E, for
    weights and with quantized scales.
    """

    values = (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    )  # fmt: skip


@dataclass(frozen=True)
class Dynamic4(FourBits):
    """C(x) = ‖x_b‖∞ times the nearest dynamic value, in groups b of B neighbours: 4d + 32⌈d/B⌉ bits.

    The 16 values are 0, 1, and in both signs one below 0.01, two below 0.1 and four below 1, equally spaced in each.
    −1 is missing, so a negative maximum loses a ninth. π = 0.871 for B = 64, 0.839 for 128, 0.815 for 256: it falls
    more slowly than int4's and nf4's, but normal vectors lose more.

    Source: Dettmers, 8-Bit Approximations for Parallelism in Deep Learning, 2015 (arXiv 1511.04561), by the code of
    bitsandbytes for four bits, with at most three exponent bits.
    """

    values = (
        -0.8875, -0.6625, -0.4375, -0.2125, -0.0775, -0.0325, -0.0055, 0.0,
        0.0055, 0.0325, 0.0775, 0.2125, 0.4375, 0.6625, 0.8875, 1.0,
    )  # fmt: skip
