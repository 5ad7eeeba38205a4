"""Integers of a few bits, without a scale."""

from dataclasses import dataclass

from torch import Tensor

from ..utils.seeding import MessageKey
from .packing import pack_codes
from .shard import Shard, uniform
from .sign import Levels, Unscaled


@dataclass(frozen=True)
class Integers(Unscaled):
    """C(x)_j = ⌊x_j⌋ + Bernoulli(x_j − ⌊x_j⌋), at most 2^{b−1} − 1 in absolute value: b·d bits, b = `width`.

    E C(x)_j = x_j within this range. There is no scale, so the method scales vectors first.

    Source: Int(·) of IntSGD (Mishchenko, Wang, Kovalev and Richtárik, ICLR 2022), in 8 or 32 bits.
    """

    width: int = 8  # b, bits of an integer: 2 to 16

    grain = None  # draws cover the whole vector

    def __post_init__(self) -> None:
        _check_width(self.width)

    @property
    def top(self) -> int:
        """2^{b−1} − 1, the largest integer."""
        return 2 ** (self.width - 1) - 1

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Levels:
        low = x.floor()
        drawn = low + (uniform("integers", key, x, shard) < x - low)
        return Levels(pack_codes(self._codes(drawn), self.width), x[..., :0])

    def _codes(self, x: Tensor) -> Tensor:
        return x.clamp(-self.top, self.top) + self.top

    def _values(self, codes: Tensor) -> Tensor:
        return codes - self.top


@dataclass(frozen=True)
class IntegerMean(Unscaled):
    """C(x) is the nearest k/n with an integer |k| < 2^{b−1}, b = `width`, n = `workers`: b·d bits.

    If the sum of n integers fits b bits, their mean crosses exactly.
    """

    workers: int
    width: int = 8  # b, bits of the sum: 2 to 16

    def __post_init__(self) -> None:
        _check_width(self.width)

    def _codes(self, x: Tensor) -> Tensor:
        top = 2 ** (self.width - 1) - 1
        return (x * self.workers).round().clamp(-top, top) + top

    def _values(self, codes: Tensor) -> Tensor:
        return (codes - (2 ** (self.width - 1) - 1)) / self.workers  # same bits as the sum divided by n


def _check_width(width: int) -> None:
    if width not in range(2, 17):
        raise ValueError(f"width={width}: integers take 2 to 16 bits")
