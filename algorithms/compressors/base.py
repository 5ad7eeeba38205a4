"""Base classes of compressors: a map of R^d, its payload and its bit count. Also the identity."""

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
"""The content of a message: a named tuple of tensors, each with the leading axes of the encoded vectors, or a tuple
of such payloads, one per block."""


def tensors(payload: Payload) -> Iterator[Tensor]:
    """Yield all tensors of a payload, in the order in which they are sent."""
    for part in payload:
        if isinstance(part, Tensor):
            yield part
        else:
            yield from tensors(part)


def rebuild(like: Payload, flat: Iterable[Tensor]) -> Payload:
    """Return a payload with the structure of `like` and the given tensors, such as arrived ones."""
    flat = iter(flat)
    parts = [next(flat) if isinstance(part, Tensor) else rebuild(part, flat) for part in like]
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


class Compressor(ABC):
    """A map C of R^d to itself, applied along the last axis, with the payload that carries C(x).

    A new compressor defines `encode`, `decode` and `bits`. It may override `__call__` with a faster dense path that
    gives C(x) bit for bit.
    """

    contractive: bool = True
    """Whether E‖C(x) − x‖² ≤ (1 − π)‖x‖² for some 0 < π ≤ 1 and all x (Assumption 4.1 of the CD-Adam paper)."""

    unbiased: bool = False
    """Whether E C(x) = x."""

    keeps_zero: bool = True
    """Whether C(0) = 0. One bit has no third value for it."""

    is_scaled: bool = True
    """Whether C(x) scales with x. If not, no multiple of ‖x‖ bounds the error."""

    @property
    def enlarges(self) -> bool:
        """Whether it is unbiased but not contractive. A memory of its error would grow."""
        return self.unbiased and not self.contractive

    @abstractmethod
    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        """Return the payload of vectors x [..., d]. A randomised compressor draws from `key`."""

    @abstractmethod
    def decode(self, payload: Any, d: int) -> Tensor:
        """Decode the payload of x to C(x) [..., d], in the dtype of x."""

    def sent_mask(self, payload: Any, d: int) -> Tensor:
        """Return which coordinates a payload carries, zeros included: bool [..., d]. Raises ValueError if unknown."""
        raise ValueError(f"{self}: has no `sent_mask`, which a mean over senders needs; take chunk_top_k")

    def pi(self, d: int) -> float:
        """Return π of Assumption 4.1 for vectors of d coordinates. Raises ValueError if it is unknown."""
        raise ValueError(f"{self}: has no known contraction constant π; take top_k, random_k or scaled_sign")

    def omega(self, d: int) -> float:
        """Return ω of E‖C(x) − x‖² ≤ ω‖x‖², for an unbiased C on d coordinates. Raises ValueError if unknown."""
        raise ValueError(f"{self}: has no known variance constant ω; take random_k_unbiased, natural or qsgd")

    @abstractmethod
    def bits(self, d: int) -> int:
        """Return the bits of one message of d coordinates, counted as in the literature: a float is 32 bits."""

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        """Return C(x), with the shape and dtype of x."""
        return self.decode(self.encode(x, key), x.shape[-1])

    def check(self, d: int) -> None:  # noqa: B027 (most compressors take any d)
        """Raise ValueError if this compressor cannot take vectors of d coordinates."""


class Shardable(Compressor):
    """A compressor that works shard by shard, for a sharded server.

    Each process has x [..., size] on its shard, and together they compute C(x) bit for bit. A new one defines
    `encode_shard`, `decode`, `cut` and `bits`. It also defines `decode_shard` if decoding depends on the shard, and
    `cut_points` if shards may not begin between pieces.
    """

    varies: bool = False
    """Whether the size of a shard's payload depends on the vector."""

    grain: int | None = None
    """`compress_shard` is fast on shards that begin at multiples of this number; None: on no shard."""

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Payload:
        return self.encode_shard(x, whole_shard(x.shape[-1]), key)

    @abstractmethod
    def encode_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Payload:
        """Return the payload of x [..., size], the coordinates of a shard."""

    @abstractmethod
    def cut(self, payload: Any, shard: Shard) -> Payload:
        """Cut the payload of `encode_shard` on a shard out of the payload of whole vectors."""

    def decode_shard(self, payload: Any, shard: Shard) -> Tensor:
        """Decode a shard's payload to C(x) [..., size]."""
        return self.decode(payload, shard.size)

    def compress_shard(self, x: Tensor, shard: Shard, key: MessageKey | None = None) -> Tensor:
        """Return the dense C(x) of x on a shard, both [..., size]. Subclasses may skip the payload, bit for bit."""
        return self.decode_shard(self.encode_shard(x, shard, key), shard)

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        return self.compress_shard(x, whole_shard(x.shape[-1]), key)

    def cut_points(self, d: int) -> Sequence[int]:
        """Return the places where a vector of d coordinates may be cut into shards."""
        return cut_points(d)


@cache
def payload_bytes(compressor: Compressor, d: int, dtype: torch.dtype) -> int:
    """Return the bytes of one vector's payload in the run's dtype, padding included.

    The payload is also decoded, so that a compressor that cannot take such a vector raises here.
    """
    payload = compressor.encode(torch.zeros(d, dtype=dtype), MessageKey.none())
    compressor.decode(payload, d)
    return sum(tensor.nbytes for tensor in tensors(payload))


class Vector(NamedTuple):
    values: Tensor  # [..., d]


class Floats(Shardable):
    """A compressor that sends every coordinate as a float. Uncompressed methods take no other."""


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
    """A compressor around another one, with the same assumptions."""

    compressor: Compressor

    def __post_init__(self) -> None:
        for assumption in ("contractive", "unbiased", "keeps_zero", "is_scaled"):
            object.__setattr__(self, assumption, getattr(self.compressor, assumption))  # the class is frozen

    @property
    def enlarges(self) -> bool:
        return self.compressor.enlarges

    def whole_size(self, d: int) -> int:
        """Return the whole vector's length for a shard of length d. Bits, π and ω refer to the whole vector."""
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
    """The same C(x), unpacked: the dense path of simulations."""

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Vector:
        return Vector(self(x, key))

    def decode(self, payload: Vector, d: int) -> Tensor:
        return payload.values

    def __call__(self, x: Tensor, key: MessageKey | None = None) -> Tensor:
        return self.compressor(x, key)
