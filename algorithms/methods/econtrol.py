"""EControl: one message corrects a gradient estimate and feeds back an error with a gain."""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from .bases import SGD, Algorithm, Channel, Compressor, MessageKey, Payload, dense


class Controlled(NamedTuple):
    h: Tensor  # the receiver's estimate of w
    e: Tensor  # the sum of its errors


@dataclass(frozen=True)
class ErrorControl(Channel):
    """Sends c = C(w − h + ηe), keeps h ← h + c and e ← e + w − h; the receiver uses h. η = π(d) if it is None."""

    eta: float | None = None

    is_coordinatewise = True
    mean_memory_suffices = True  # the mean of h is ĝ, which the server has; e enters linearly
    mean_over = "all"

    def __post_init__(self) -> None:
        self._check_scaled("error control")
        if self.eta is not None and not 0 <= self.eta < inf:
            raise ValueError(f"eta={self.eta}: must be finite and not negative")

    def start(self, like: Tensor) -> Controlled:
        return Controlled(h=torch.zeros_like(like), e=torch.zeros_like(like))

    def send(self, w: Tensor, memory: Controlled, key: MessageKey) -> tuple[Payload, Controlled]:
        d = w.shape[-1]
        payload = self.codec(key.round).encode(w - memory.h + self._gain(d) * memory.e, key)
        h = memory.h + self.decode(payload, d, key.round)
        return payload, Controlled(h=h, e=memory.e + w - h)

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return last + message

    def check(self, d: int) -> None:
        super().check(d)
        self._gain(d)

    def _gain(self, d: int) -> float:
        return self.compressor.pi(d) if self.eta is None else self.eta


def econtrol(
    compressor: Compressor,
    update: SGD,
    eta: float | None = None,  # η, how much of the error is fed back; null: C's π
    dense_start: bool = True,  # true: the first vectors cross uncompressed, 32d bits
) -> Algorithm:
    """Send EF21's correction and error feedback's error in one message, the error with a stabilizing gain.

        worker   c_i = C(g_i − h_i + ηe_i),  h_i ← h_i + c_i,  e_i ← e_i + g_i − h_i     (the new h_i)
        server   ĝ ← ĝ + mean_i c_i,  sends ĝ
        replica  x ← x − αĝ

    State: h_i and e_i [d] on every worker, ĝ [d] on the server, zero at the start; with `dense_start` h_i = g_i after
    round 1, and e_i = 0.
    Wire: 32d bits up in round 1, then one message of C, 64k bits with top-k; 32d bits down.
    Source: Gao, Islamov and Stich, EControl: Fast Distributed Optimization with Compression and Error Control, 2023
    (arXiv 2311.05645), as in the code of EF21-SGDM's authors, which has η = 0.1 for top-k with ratio 0.1. A gain well
    above π diverges. The step size of theory is EF21's. η = 0 is EF21.
    """
    return Algorithm(ErrorControl(compressor, dense_rounds=int(dense_start), eta=eta), dense(), update)
