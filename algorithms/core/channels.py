"""One direction of the wire: a compressor and what sender and receiver remember between rounds.

The sender of w_t keeps a memory, the receiver its last signal. Up, W workers send and the server receives the mean of
their messages; down, the server sends and every replica receives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..compressors.base import Compressor, Identity, Payload, Vector, payload_bytes
from ..utils.seeding import MessageKey
from .update_rules import memory_of

Memory = Any
"""What a sender remembers: a vector a message, a named tuple of several, or nothing."""


@dataclass(frozen=True)
class Channel(ABC):
    """What is sent, remembered and received in one direction; for `dense_rounds` rounds w itself, 32d bits."""

    compressor: Compressor
    dense_rounds: int = 0

    is_coordinatewise = False
    """Whether a coordinate that is sent or received depends on others by the compressor alone, so that a server may
    have a shard of the vector. Every subclass says so for itself."""

    is_mirrored = False
    """Whether the memory of a lone sender is the receiver's signal, bit for bit."""

    needs_last = True
    """Whether a receiver needs its last signal to decode the next."""

    mean_memory_suffices = False
    """Whether a receiver relies on nothing but the mean of its senders' memories: others may then start from it."""

    mean_over: ClassVar[Literal["all", "present"] | None] = None
    """Which workers a server averages over if some are absent. `all`: it adds increments to its signal, and absent
    workers' increments are zero. `present`: it uses messages as they are. None: neither is right. Each subclass sets
    its own."""

    def start(self, like: Tensor) -> Memory:
        """The sender's memory before the first round, for vectors of the shape and dtype of `like`."""
        return torch.zeros_like(like)

    def start_signal(self, like: Tensor) -> Tensor:
        """The receiver's signal before the first round: zeros, which take no memory where nobody reads them."""
        return torch.zeros_like(like) if self.needs_last else like.new_zeros(1).expand(like.shape)

    @abstractmethod
    def send(self, w: Tensor, memory: Memory, key: MessageKey) -> tuple[Payload, Memory]:
        """The payload of w [..., d] in round `key.round`, and the sender's new memory, of the type of `start`'s."""

    @abstractmethod
    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        """The signal [*T, d] that the receiver uses, from the decoded message and its last signal."""

    def codec(self, t: int) -> Compressor:
        """The compressor of round t (from 1)."""
        return Identity() if t <= self.dense_rounds else self.compressor

    def decode(self, payload: Payload, d: int, t: int) -> Tensor:
        """The message [..., d] in a payload of round t. A `Vector` is the message itself, unpacked."""
        return payload.values if isinstance(payload, Vector) else self.codec(t).decode(payload, d)

    def bits(self, d: int, t: int) -> int:
        """Counted bits of the one message of round t."""
        return self.codec(t).bits(d)

    def payload_bytes(self, d: int, t: int, dtype: torch.dtype) -> int:
        """Bytes of the payload of round t, for vectors of the run's dtype."""
        return payload_bytes(self.codec(t), d, dtype)

    def check(self, d: int) -> None:
        """Raise ValueError when vectors of d coordinates cannot be sent."""
        try:
            hash(self.compressor)
        except TypeError as error:
            raise ValueError(
                f"{self.compressor}: {error}; make it a frozen dataclass, and its options numbers, strings or tuples"
            ) from error
        self.compressor.check(d)

    def _check_unbiased(self, name: str) -> None:
        if not self.compressor.unbiased:
            known = "random_k with `unbiased`, natural, qsgd, terngrad"
            raise ValueError(f"{self.compressor}: {name} needs an unbiased compressor ({known})")

    def _check_scaled(self, name: str) -> None:
        if not self.compressor.is_scaled:
            raise ValueError(
                f"{self.compressor}: has no scale, and {name} needs a contractive compressor (Assumption 4.1): its "
                "memory would grow. Take scaled_sign, or send it without memory (algorithm=naive)"
            )
        if self.compressor.enlarges:
            raise ValueError(
                f"{self.compressor}: {name} needs a contractive compressor (Assumption 4.1), and one scaled to be "
                "unbiased is not: its memory would grow. Take a contractive one (random_k without `unbiased`, say), "
                "or send it without memory (algorithm=naive)"
            )


@dataclass(frozen=True)
class Direct(Channel):
    """Sends C(w); the receiver uses it as it is. Nothing is remembered."""

    is_coordinatewise = True
    needs_last = False
    mean_over = "present"

    def start(self, like: Tensor) -> None:
        return None

    def send(self, w: Tensor, memory: None, key: MessageKey) -> tuple[Payload, None]:
        return self.codec(key.round).encode(w, key), None

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return message


@dataclass(frozen=True)
class ErrorFeedback(Channel):
    """Sends c = C(w + βδ), keeps δ ← w + βδ − c (CD-Adam paper, section 4; Karimireddy et al. 2019).

    β = `decay` is 1 but in methods that let old errors fade.
    """

    decay: float = 1.0

    is_coordinatewise = True
    needs_last = False
    mean_memory_suffices = True  # x − α·mean_i δ_i moves as if nothing had been lost
    mean_over = "present"

    def __post_init__(self) -> None:
        self._check_scaled("error feedback")
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay={self.decay}: must lie in [0, 1]")

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        compensated = w + (memory if self.decay == 1 else self.decay * memory)
        payload = self.codec(key.round).encode(compensated, key)
        message = self.decode(payload, w.shape[-1], key.round)
        return payload, torch.sub(compensated, message, out=memory_of(memory))

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return message


@dataclass(frozen=True)
class Markov(Channel):
    """Sends c = C(w − ŵ); both ends keep ŵ ← ŵ + c, and the receiver uses ŵ (EF21's sequence, eq. 5.1).

    Since every worker adds its own c_i, the server only needs ĝ ← ĝ + mean_i c_i (Algorithm 1, line 8).
    ŵ starts at zero, so that the first message is C(w₁) (line 1); EF21's authors start with one dense round.
    """

    is_coordinatewise = True
    is_mirrored = True
    mean_memory_suffices = True  # it is ĝ, which the server has
    mean_over = "all"

    def __post_init__(self) -> None:
        self._check_scaled("the Markov sequence")

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        payload = self.codec(key.round).encode(w - memory, key)
        return payload, torch.add(memory, self.decode(payload, w.shape[-1], key.round), out=memory_of(memory))

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return last + message


def dense() -> Channel:
    """The uncompressed direction: 32d bits a message."""
    return Direct(Identity())
