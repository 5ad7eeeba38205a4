"""Codes of a few bits for bins, decoded to the bins' means."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .base import Shardable
from .packing import pack_codes, packed_shard, unpack_codes
from .shard import Shard, divisor, scaled_norm


class Bins(NamedTuple):
    codes: Tensor  # uint8 [..., ⌈b·d/8⌉]
    means: Tensor  # [..., 2^b], of the differences to the shift in every bin, zero for an empty bin
    shift: Tensor  # [..., 1], the mean


@dataclass(frozen=True)
class BinMeans(Shardable):
    """C(x) replaces every number by the mean of its bin, of 2^b equal bins over six standard deviations.

        x̄ = mean_j x_j,  c = x − x̄,  σ = ‖c‖₂/√(d−1),  step = 6σ/2^b  (1 where σ = 0)
        code = clip(rint(c/step + 2^{b−1}), 0, 2^b − 1),  C(x)_j = x̄ + mean of the c with the same code

    b·d + 32(2^b + 1) bits, b = `bits`: 2d + 160 for b = 2. Payload: packed codes, the means and x̄.
    ‖C(x) − x‖² is the scatter within the bins: ‖c‖² minus the part that the bins' means explain. The edges of the bin
    around 0 are ±3σ/2^b. For d ≥ 3 the largest |c_j| ≥ σ√((d−1)/d) is outside them, and so is its bin's mean: π ≥
    9/(4^b(d−1)). For b = 2 two coordinates of opposite sign share that bin and become 0, so d = 2 is rejected.

    Source: the quantized values of SparseLoCo's code (CCLoco, templar), which sends a byte for every code.
    """

    width: int  # b

    def __init__(
        self,
        bits: int = 2,  # b, bits a coordinate: 2 to 8
    ) -> None:
        if bits not in range(2, 9):
            raise ValueError(f"bits={bits}: bin_means takes 2 to 8 bits a coordinate")
        object.__setattr__(self, "width", bits)  # the class is frozen, and a field `bits` would hide the method

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Bins:
        shift = shard.total(x) / shard.d
        centred = x - shift
        unit, length = scaled_norm(centred, shard)  # σ = unit·length/√(d−1)
        step = divisor(length * (6 / max(shard.d - 1, 1) ** 0.5 / 2**self.width))
        codes = (centred / unit / step + 2 ** (self.width - 1)).round().clamp(0, 2**self.width - 1)
        means = []
        for code in range(2**self.width):
            here = codes == code
            count = shard.total(here.to(x.dtype)).clamp(min=1)
            means.append(shard.total(torch.where(here, centred / unit, 0)) / count * unit)
        return Bins(pack_codes(codes.to(torch.int32), self.width), torch.cat(means, -1), shift)

    def decode(self, payload: Bins, d: int) -> Tensor:
        codes = unpack_codes(payload.codes, self.width, d).long()
        return payload.means.gather(-1, codes) + payload.shift

    def cut(self, payload: Bins, shard: Shard) -> Bins:
        return payload._replace(codes=packed_shard(payload.codes, self.width, shard))

    def bits(self, d: int) -> int:
        return self.width * d + 32 * (2**self.width + 1)

    def pi(self, d: int) -> float:
        return min(1.0, 9 / (4**self.width * max(d - 1, 1)))

    def check(self, d: int) -> None:
        if (d, self.width) == (2, 2):
            raise ValueError("bits=2: bin_means takes 1 or at least 3 coordinates (two become 0); take more bits")
