"""One direction of communication: a compressor, and the state of sender and receiver between rounds.

The sender of w_t keeps a memory, the receiver its last signal. On the uplink W workers send, and the server receives
the mean of their messages. On the downlink the server sends, and every replica receives.
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
"""A sender's state: one vector per message, a named tuple of several, or None."""


@dataclass(frozen=True)
class Channel(ABC):
    """Sends vectors w in one direction. In the first `dense_rounds` rounds w crosses uncompressed, 32d bits."""

    compressor: Compressor
    dense_rounds: int = 0

    is_coordinatewise = False
    """Whether only the compressor makes a coordinate depend on others. Then a server may have a shard of the vector.
    Every subclass sets its own."""

    is_mirrored = False
    """Whether a single sender's memory equals the receiver's signal, bit for bit."""

    needs_last = True
    """Whether a receiver needs its last signal to decode the next."""

    mean_memory_suffices = False
    """Whether a receiver needs only the mean of its senders' memories. Then new senders may start from that mean."""

    mean_over: ClassVar[Literal["all", "present"] | None] = None
    """Workers that a server averages over if some are absent. `all`: it adds increments to its signal, and absent
    workers' increments are zero. `present`: it uses messages as they are. None: neither is right. Each subclass sets
    its own."""

    def start(self, like: Tensor) -> Memory:
        """Return the sender's memory before round 1, for vectors with the shape and dtype of `like`."""
        return torch.zeros_like(like)

    def start_signal(self, like: Tensor) -> Tensor:
        """Return the receiver's signal before round 1: zeros, which take no memory if nobody reads them."""
        return torch.zeros_like(like) if self.needs_last else like.new_zeros(1).expand(like.shape)

    @abstractmethod
    def send(self, w: Tensor, memory: Memory, key: MessageKey) -> tuple[Payload, Memory]:
        """Return the payload of w [..., d] in round `key.round`, and the new memory, like `start`'s."""

    @abstractmethod
    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        """Return the signal [*T, d] from the decoded message and the last signal."""

    def codec(self, t: int) -> Compressor:
        """Return the compressor of round t (from 1)."""
        return Identity() if t <= self.dense_rounds else self.compressor

    def decode(self, payload: Payload, d: int, t: int) -> Tensor:
        """Decode a payload of round t to its message [..., d]. A `Vector` is an unpacked message."""
        return payload.values if isinstance(payload, Vector) else self.codec(t).decode(payload, d)

    def bits(self, d: int, t: int) -> int:
        """Return the counted bits of one message of round t."""
        return self.codec(t).bits(d)

    def payload_bytes(self, d: int, t: int, dtype: torch.dtype) -> int:
        """Return the payload's bytes in round t, for vectors of the run's dtype."""
        return payload_bytes(self.codec(t), d, dtype)

    def check(self, d: int) -> None:
        """Raise ValueError if vectors of d coordinates cannot be sent."""
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
    """Sends C(w), which the receiver uses directly. There is no memory."""

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

    β = `decay` is below 1 in methods whose old errors fade.
    """

    decay: float = 1.0

    is_coordinatewise = True
    needs_last = False
    mean_memory_suffices = True  # x − α·mean_i δ_i moves as without compression
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

    Every worker adds its own c_i, so the server needs only ĝ ← ĝ + mean_i c_i (Algorithm 1, line 8).
    ŵ starts at zero, so the first message is C(w₁) (line 1). EF21's authors start with one dense round.
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
    """Return an uncompressed channel: 32d bits a message."""
    return Direct(Identity())
