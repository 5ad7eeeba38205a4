"""Signs, scaled and unscaled, and means of signs."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from ..utils.words import check_words
from .base import Shardable
from .packing import pack_codes, pack_signs, packed_shard, unpack_codes, unpack_signs
from .shard import Shard, scaled_norm


class Signs(NamedTuple):
    bits: Tensor  # uint8 [..., ⌈d/8⌉], 1 where x ≥ 0
    scale: Tensor  # [..., 1], in the dtype of x


@dataclass(frozen=True)
class ScaledSign(Shardable):
    """C(x) = s·sgn±(x) with s = ‖x‖₁/d (`norm: l1`) or s = ‖x‖₂/√d (`norm: l2`, 1-bit Adam's): d + 32 bits.

    sgn±(0) = +1, because one bit has no third value. The CD-Adam authors' code sends 0 and counts one bit.
    With l1, ‖C(x) − x‖² = ‖x‖² − ‖x‖₁²/d, so π = ‖x‖₁²/(d‖x‖²) ≥ 1/d.
    With l2, ‖C(x) − x‖² = 2‖x‖²(1 − ‖x‖₁/(√d‖x‖)), which exceeds ‖x‖² if ‖x‖₁ < √d‖x‖/2. Sparse vectors are
    then not contracted, and Assumption 4.1 does not hold, although 1-bit Adam's analysis assumes it.

    Source: CD-Adam, Algorithm 1 and footnote 3; 1-bit Adam (Tang et al. 2021) for l2.
    """

    norm: Literal["l1", "l2"] = "l1"  # l1 (CD-Adam) | l2 (1-bit Adam)

    def __post_init__(self) -> None:
        check_words(type(self), vars(self))

    @property
    def grain(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return 1 if self.norm == "l1" else None  # its unit and its length need two passes over all shards

    @property
    def contractive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return self.norm == "l1"

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Signs:
        scale = self._scale(x, shard)  # first: a tile may stop here
        return Signs(pack_signs(x), scale)

    def cut(self, payload: Signs, shard: Shard) -> Signs:
        return Signs(packed_shard(payload.bits, 1, shard), payload.scale)

    def decode(self, payload: Signs, d: int) -> Tensor:
        return unpack_signs(payload.bits, d, payload.scale)

    def compress_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Tensor:
        # On a CPU many times faster than choosing between s and −s.
        scale = self._scale(x, shard)
        return torch.ge(x, 0, out=torch.empty_like(x)).mul_(2).sub_(1).mul_(scale)

    def pi(self, d: int) -> float:
        return 1 / d if self.norm == "l1" else super().pi(d)

    def bits(self, d: int) -> int:
        return d + 32

    def _scale(self, x: Tensor, shard: Shard) -> Tensor:
        if self.norm == "l1":
            return shard.measure_pieces(x, lambda piece: piece.abs().sum(-1)).sum(-1, keepdim=True) / shard.d
        unit, length = scaled_norm(x, shard)
        return unit * (length / shard.d**0.5)


class Levels(NamedTuple):
    codes: Tensor  # uint8 [..., ⌈width·d/8⌉]
    kind: Tensor  # [..., 0], no bytes: it has the dtype of x


class Unscaled(Shardable):
    """A code of `width` bits for every coordinate, without a scale: width·d bits.

    No multiple of ‖x‖² bounds ‖C(x) − x‖². It is neither contractive nor unbiased.
    """

    contractive = False
    is_scaled = False
    grain = 1

    width: int
    """Bits of one code."""

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Levels:
        return Levels(pack_codes(self._codes(x), self.width), x[..., :0])

    def decode(self, payload: Levels, d: int) -> Tensor:
        return self._values(unpack_codes(payload.codes, self.width, d).to(payload.kind.dtype))

    def cut(self, payload: Levels, shard: Shard) -> Levels:
        return Levels(packed_shard(payload.codes, self.width, shard), payload.kind)

    def bits(self, d: int) -> int:
        return self.width * d

    @abstractmethod
    def _codes(self, x: Tensor) -> Tensor:
        """Return integers from 0 to 2^width − 1, of any dtype."""

    @abstractmethod
    def _values(self, codes: Tensor) -> Tensor:
        """Return the values of codes, in the dtype of x."""


@dataclass(frozen=True)
class Sign(Unscaled):
    """C(x) = sgn±(x), +1 where x ≥ 0 and −1 elsewhere: d bits. With `zero` a third value, sgn(0) = 0: 2d bits.

    Applied to a mean of n signs it is the majority's vote: the mean is exact, and zero only for a tie. A tie becomes
    +1, or 0 with `zero`. One bit has no code for 0, so C(0) ≠ 0.

    Source: signSGD with majority vote (Bernstein et al. 2019). Its code decodes ties and zeros to +1.
    """

    zero: bool = False  # true: 0 stays 0, for 2 bits a coordinate

    @property
    def keeps_zero(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return self.zero

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from an option
        return 2 if self.zero else 1

    def _codes(self, x: Tensor) -> Tensor:
        return x.sign() + 1 if self.zero else x >= 0

    def _values(self, codes: Tensor) -> Tensor:
        return codes - 1 if self.zero else codes.mul(2).sub_(1)


def check_signs(compressor: object) -> None:
    """Raise ValueError unless the compressor is `Sign`, for methods that vote."""
    if not isinstance(compressor, Sign):
        raise ValueError(f"{compressor}: this method votes on signs; take sign")


def vote(tie: Literal["plus", "zero"]) -> Sign:
    """Return the compressor that turns a mean of signs into the majority's vote; a tie is +1 (`plus`) or 0 (`zero`).

    Raises ValueError for another word.
    """
    check_words(vote, locals())
    return Sign(zero=tie == "zero")


@dataclass(frozen=True)
class SignMean(Unscaled):
    """C(x) is the nearest of −1, −1 + 2/n, …, 1, the n + 1 values of a mean of n signs: ⌈log₂(n+1)⌉·d bits.

    Such means cross exactly, bit for bit. For odd n 0 is not among the values. n = `workers` ≤ 65,535.
    """

    workers: int

    keeps_zero = False

    def __post_init__(self) -> None:
        if self.workers not in range(1, 2**16):
            raise ValueError(f"workers={self.workers}: must be 1 to {2**16 - 1}, so that a code fits 16 bits")

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]: follows from the workers
        return self.workers.bit_length()

    def _codes(self, x: Tensor) -> Tensor:
        return ((x.clamp(-1, 1) + 1) * (self.workers / 2)).round()

    def _values(self, codes: Tensor) -> Tensor:
        return (2 * codes - self.workers) / self.workers  # same bits as a sum of signs divided by n
