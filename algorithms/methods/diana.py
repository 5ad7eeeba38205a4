"""DIANA: unbiased compression of gradients' differences to learnt shifts."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..core.algorithm import Answer, Payloads, ServerState
from .bases import SGD, Algorithm, Channel, Compressor, MessageKey, Payload, check_range, dense


@dataclass
class LearningServer(ServerState):
    h: Tensor  # mean_i h_i [*T, d]


@dataclass(frozen=True)
class Learning(Channel):
    """Sends c = C(w − h), keeps h ← h + a·c; the receiver uses h + c. a = 1/(1+ω) if `rate` is None."""

    rate: float | None = None

    is_coordinatewise = True
    mean_memory_suffices = True  # it is h, which the server has
    mean_over = "all"

    def __post_init__(self) -> None:
        check_range(self, "rate", span="[0, 1]")
        if self.rate is None or not self.compressor.contractive:
            self._check_unbiased("DIANA, unless the compressor is contractive and there is a `rate`,")

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        d = w.shape[-1]
        payload = self.codec(key.round).encode(w - memory, key)
        return payload, memory + self.gain(d) * self.decode(payload, d, key.round)

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return last + message

    def gain(self, d: int) -> float:
        return 1 / (1 + self.compressor.omega(d)) if self.rate is None else self.rate

    def check(self, d: int) -> None:
        super().check(d)
        self.gain(d)


@dataclass(frozen=True, kw_only=True)
class Diana(Algorithm):
    """Rounds with a server that adds messages to h, and learns h as the workers do."""

    along: Literal["estimate", "learnt"]

    is_coordinatewise = True
    needs_all = ""

    def start_server(self, x: Tensor) -> LearningServer:
        return LearningServer(**vars(super().start_server(x)), h=torch.zeros_like(x))

    def aggregate(self, payloads: Payloads, state: Any, t: int) -> Tensor:
        mean = self.mean(payloads, state.h.shape[-1], t)
        if self.along == "learnt" and isinstance(self.uplink, Learning):  # a dense group learns nothing
            mean = self.uplink.gain(mean.shape[-1]) * mean
        return self.uplink.receive(mean, state.h)

    def server_message(self, aggregate: Tensor, state: Any, t: int, seed: int, norm: Tensor | None = None) -> Answer:
        payload, new = super().server_message(aggregate, state, t, seed, norm)
        if self.along == "learnt" or not isinstance(self.uplink, Learning):
            return payload, replace(new, h=aggregate)
        learnt = self.uplink.gain(aggregate.shape[-1]) * (aggregate - state.h)  # ĝ − h = mean_i c_i
        return payload, replace(new, h=state.h + learnt)

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        return diana_step_size(smoothness, self.uplink.compressor.omega(d), workers)


def diana(
    compressor: Compressor,
    update: SGD,
    rate: float | None = None,  # a, share of a message that h_i learns; null: 1/(1+ω)
    along: Literal["estimate", "learnt"] = "estimate",  # of the step; learnt: the new mean_i h_i
) -> Algorithm:
    """Compress g_i − h_i without bias. h_i learns the local gradient at the optimum.

        worker   c_i = C(g_i − h_i),  h_i ← h_i + a·c_i
        server   ĝ = h + mean_i c_i,  h ← h + a·mean_i c_i,  sends ĝ      (with `along: learnt` the new h)
        replica  x ← x − αĝ

    State: h_i [d] on every worker; h = mean_i h_i and ĝ [d] on the server; all zero at the start.
    Wire: one message of an unbiased C up, 32d bits down.
    Source: Mishchenko, Gorbunov, Takáč and Richtárik, Distributed Learning with Compressed Gradient Differences, 2019
    (arXiv 1901.09269), without its proximal step. a = 1/(1+ω) as in the code of MARINA's authors. `along: learnt` is
    DIANA in their linear-model experiments. a = 1 with a contractive C is EF21 from zero, a = 0 direct
    compression.
    """
    return Diana(Learning(compressor, rate=rate), dense(), update, along=along)


def diana_step_size(smoothness: float, omega: float, workers: int) -> float:
    """γ = 1/(10L√(1 + ω/n)(2 + ω)) for DIANA on full gradients of n workers, nonconvex (Theorem 4 of arXiv
    1904.05115 with m = 1, by the code of MARINA's authors)."""
    return 1 / (10 * smoothness * (1 + omega / workers) ** 0.5 * (2 + omega))
