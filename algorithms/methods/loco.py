"""LoCo: messages of four bits, with an averaged error."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..compressors.four_bits import Int4
from ..core.update_rules import memory_of
from .bases import Algorithm, Channel, Compressor, MessageKey, Payload, Update, check_range, check_words


@dataclass(frozen=True)
class Int8(Int4):
    """C(x) = ‖x_b‖∞ times the nearest multiple of 1/127, in groups b of B neighbours."""

    width = 8


@dataclass(frozen=True)
class AveragedError(Channel):
    """Sends c = C(w + e), keeps e ← βe + (1−β)(w + e − c), and e = 0 after every `reset`-th round; null: never."""

    beta: float = 0.8
    reset: int | None = 1024

    is_coordinatewise = True
    needs_last = False
    mean_memory_suffices = True  # the mean error, which is still to be sent
    mean_over = "present"

    def __post_init__(self) -> None:
        self._check_scaled("an averaged error")
        check_range(self, "beta", span="[0, 1]")
        if self.reset is not None and self.reset < 1:
            raise ValueError(f"reset={self.reset}: a number of rounds, at least 1, or null for never")

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        compensated = w + memory
        payload = self.codec(key.round).encode(compensated, key)
        if self.reset and key.round % self.reset == 0:
            return payload, torch.zeros_like(memory)
        lost = compensated - self.decode(payload, w.shape[-1], key.round)
        return payload, self._round_error(torch.lerp(lost, memory, self.beta, out=memory_of(memory)))

    def _round_error(self, error: Tensor) -> Tensor:
        return error

    def receive(self, message: Tensor, last: Tensor) -> Tensor:
        return message


@dataclass(frozen=True)
class CodedError(AveragedError):
    """Keeps its error in 8 bits a coordinate."""

    mean_over = "present"

    def _round_error(self, error: Tensor) -> Tensor:
        return Int8()(error)


def loco(
    compressor: Compressor,
    update: Update,
    beta: float = 0.8,  # β, how much of the error is kept each round
    reset: int | None = 1024,  # T_r, rounds after which errors are forgotten; null: never
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
    error_bits: Literal[8, 32] = 32,  # of a coordinate of an error between two rounds
) -> Algorithm:
    """Error feedback with a moving average of errors, which is reset at times.

        worker   c_i = C(g_i + e_i),  e_i ← βe_i + (1−β)(g_i + e_i − c_i),  e_i ← 0 after rounds T_r, 2T_r, …
        server   ĝ = mean_i c_i,  c = C(ĝ + e),  e as on workers            (c = ĝ where `uplink_only`)
        replica  step with c

    State: e_i [d] on every worker, e [d] on the server, zero at the start; the update's.
    Wire: one message of C up and one down, 4d + 32⌈d/64⌉ bits with int4.
    Source: Xie, Lin, Toh and Zhou, LoCo: Low-Bit Communication Adaptor for Large-scale Model Training, 2024 (arXiv
    2407.04480), as merged into DeepSpeed; β and the reset after 1024 are second-hand. β = 0 without resets is
    error feedback, β = 1 direct compression.
    Differences: A reset clears all coordinates, there one parameter in turn. Errors have 8 bits there; this project
    chose the code of `error_bits: 8`.
    """
    check_words(loco, locals())
    channel = CodedError if error_bits == 8 else AveragedError
    return Algorithm.from_channel(channel(compressor, beta=beta, reset=reset), update, uplink_only)
