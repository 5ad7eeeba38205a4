"""What a compressor is: a map of R^d, its wire format and its bit count; and the map that changes nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..utils.seeding import MessageKey
from .shard import Shard, cut_points, whole_shard

Payload = tuple["Tensor | Payload", ...]
"""What crosses the wire: a named tuple of tensors, each with the leading axes of the vectors it encodes, or a tuple
of such payloads, one a block."""


def tensors(payload: Payload) -> Iterator[Tensor]:
    """All tensors of a payload, in order: what is really sent."""
    for part in payload:
        if isinstance(part, Tensor):
            yield part
        else:
            yield from tensors(part)


def rebuild(like: Payload, flat: Iterable[Tensor]) -> Payload:
    """The payload of the shape of `like` whose `tensors` are the given ones: what has arrived."""
    flat = iter(flat)
    parts = [next(flat) if isinstance(part, Tensor) else rebuild(part, flat) for part in like]
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


class Compressor(ABC):
    """A map C of R^d to itself, applied along the last axis, with the payload that carries C(x).

    A new compressor is `encode`, `decode` and `bits`. Overriding `__call__` with a faster dense path is allowed when
    it gives C(x) bit for bit.
    """

    contractive: bool = True
    """Whether E‖C(x) − x‖² ≤ (1 − π)‖x‖² for some 0 < π ≤ 1 and all x (Assumption 4.1 of the CD-Adam paper)."""

    unbiased: bool = False
    """Whether E C(x) = x."""

    keeps_zero: bool = True
    """Whether C(0) = 0; one bit without a third value cannot say it."""

    is_scaled: bool = True
    """Whether C(x) is as large as x is; where it is not, no share of ‖x‖ bounds the error."""

    @property
    def enlarges(self) -> bool:
        """Whether scaling that makes it unbiased leaves it not contractive. The memory of its error would grow."""
        return self.unbiased and not self.contractive

    @abstractmethod
    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        """The payload of vectors x [..., d]; `key` is what a randomised compressor draws from."""

    @abstractmethod
    def decode(self, payload: Any, d: int) -> Tensor:
        """C(x) [..., d] out of the payload of x, as `encode` made it, in the dtype of x."""

    def sent_mask(self, payload: Any, d: int) -> Tensor:
        """Which coordinates a payload carries, whatever their values: bool [..., d]. Raises ValueError if unknown."""
        raise ValueError(
            f"{self}: does not say which coordinates it sends, which a mean over senders needs; take chunk_top_k"
        )

    def pi(self, d: int) -> float:
        """π of Assumption 4.1 for vectors of d coordinates. Raises ValueError where this project states none."""
        raise ValueError(f"{self}: has no known contraction constant π; take top_k, random_k or scaled_sign")

    def omega(self, d: int) -> float:
        """ω of E‖C(x) − x‖² ≤ ω‖x‖², for an unbiased C on d coordinates. Raises ValueError where none is stated."""
        raise ValueError(f"{self}: has no known variance constant ω; take random_k_unbiased, natural or qsgd")

    @abstractmethod
    def bits(self, d: int) -> int:
        """Bits of one message of d coordinates, as the literature counts them: a float is 32 bits."""

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        """C(x), of the shape and dtype of x."""
        return self.decode(self.encode(x, key), x.shape[-1])

    def check(self, d: int) -> None:  # noqa: B027 (most compressors take any d)
        """Raise ValueError when this compressor cannot take vectors of d coordinates."""


class Shardable(Compressor):
    """A compressor of which several processes can each do a shard of the coordinates: for a sharded server.

    Together they make C(x), bit for bit, of which each has x [..., size] on its shard. A new one is `encode_shard`,
    `decode`, `cut` and `bits`, with `decode_shard` where a message can only be read by who knows its shard, and
    `cut_points` where shards may not begin between pieces.
    """

    varies: bool = False
    """Whether the payloads of a shard differ in size from vector to vector."""

    grain: int | None = None
    """`compress_shard` is fast on shards that begin at multiples of this number of coordinates; None: on no shard."""

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        return self.encode_shard(x, whole_shard(x.shape[-1]), key)

    @abstractmethod
    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Payload:
        """The payload of x [..., size], the coordinates of a shard."""

    @abstractmethod
    def cut(self, payload: Any, shard: Shard) -> Payload:
        """What `encode_shard` would make on a shard, out of the payload of the whole vectors."""

    def decode_shard(self, payload: Any, shard: Shard) -> Tensor:
        """C(x) [..., size] on a shard."""
        return self.decode(payload, shard.size)

    def compress_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Tensor:
        """C(x) [..., size] of x [..., size] on a shard. A subclass may skip the payload, with the same bits."""
        return self.decode_shard(self.encode_shard(x, shard, key), shard)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        return self.compress_shard(x, whole_shard(x.shape[-1]), key)

    def cut_points(self, d: int) -> Sequence[int]:
        """Between which coordinates a vector of d may be cut into shards."""
        return cut_points(d)


@cache
def payload_bytes(compressor: Compressor, d: int, dtype: torch.dtype) -> int:
    """Bytes of the payload that one vector of d coordinates really becomes, padding and the run's dtype included.

    It is decoded too, so that a compressor that cannot take such a vector raises here.
    """
    payload = compressor.encode(torch.zeros(d, dtype=dtype), MessageKey.none())
    compressor.decode(payload, d)
    return sum(tensor.nbytes for tensor in tensors(payload))


class Vector(NamedTuple):
    values: Tensor  # [..., d]


class Floats(Shardable):
    """A compressor that sends every coordinate as a float: the only kind that uncompressed methods take."""


@dataclass(frozen=True)
class Identity(Floats):
    """C(x) = x: d floats, 32d bits."""

    unbiased = True
    grain = 1

    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Vector:
        return Vector(x)

    def cut(self, payload: Vector, shard: Shard) -> Vector:
        return Vector(payload.values[..., shard.begin : shard.end])

    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values

    def sent_mask(self, payload: Vector, d: int) -> Tensor:
        return torch.ones_like(payload.values, dtype=torch.bool)

    def pi(self, d: int) -> float:
        return 1.0

    def omega(self, d: int) -> float:
        return 0.0

    def bits(self, d: int) -> int:
        return 32 * d


@dataclass(frozen=True)
class Wrapper(Compressor):
    """What compressors made of another one share: its assumptions are theirs."""

    compressor: Compressor

    def __post_init__(self) -> None:
        for assumption in ("contractive", "unbiased", "keeps_zero", "is_scaled"):
            object.__setattr__(self, assumption, getattr(self.compressor, assumption))  # the class is frozen

    @property
    def enlarges(self) -> bool:
        return self.compressor.enlarges

    def whole_size(self, d: int) -> int:
        """The length of the whole vector, given a shard of length d. Bits, π and ω refer to the whole vector."""
        return d

    def bits(self, d: int) -> int:
        return self.compressor.bits(self.whole_size(d))

    def pi(self, d: int) -> float:
        return self.compressor.pi(self.whole_size(d))

    def omega(self, d: int) -> float:
        return self.compressor.omega(self.whole_size(d))

    def check(self, d: int) -> None:
        self.compressor.check(self.whole_size(d))


@dataclass(frozen=True)
class Unpacked(Wrapper):
    """The same C(x) with nothing packed: the dense path, for simulating all workers in one process."""

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Vector:
        return Vector(self(x, key))

    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        return self.compressor(x, key)
