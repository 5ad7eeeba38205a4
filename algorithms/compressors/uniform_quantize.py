"""The nearest of equally spaced levels up to the largest coordinate."""

from dataclasses import dataclass

from torch import Tensor

from ..utils.seeding import MessageKey
from .scaled_codes import ScaledCodes, check_bits
from .shard import Shard


@dataclass(frozen=True, init=False)
class UniformQuantize(ScaledCodes):
    """C(x) = ‖x‖∞ times the nearest multiple of 1/(2^{b−1} − 1) in [−1, 1], half to even: b·d + 32 bits, b = `bits`.

    2^b − 1 levels, 2 ≤ b ≤ 16. Deterministic. Payload: packed b-bit codes and ‖x‖∞.
    Every error is at most ‖x‖∞/(2(2^{b−1} − 1)). Since 0 is a level it is also at most |x_j|, and the largest
    coordinate has none: ‖C(x) − x‖² ≤ ‖x‖² − ‖x‖∞², so π ≥ 1/d.

    Source: the weight quantizer of Quantized Adam with error feedback (Chen et al. 2021), in this project's reading:
    the range follows the vector, and half to even is our rule for ties.
    """

    width: int  # b

    def __init__(
        self,
        bits: int = 8,  # b, bits a coordinate: 2 to 16
    ) -> None:
        check_bits("uniform_quantize", bits, 16)
        object.__setattr__(self, "width", bits)  # the class is frozen, and a field `bits` would hide the method

    def _levels(self, shares: Tensor, shard: Shard, key: MessageKey | None) -> Tensor:
        return (shares * self.top).round()
