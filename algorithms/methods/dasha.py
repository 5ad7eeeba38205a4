"""DASHA: compressed differences of gradients with decaying errors."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from ..core.algorithm import ReplicaState, Wanted, WorkerState
from .bases import SGD, Algorithm, Compressor, Lr, Markov, check_range, check_words, dense

Start = Literal["dense", "zero", "share"]


class LastGradient(NamedTuple):
    h: Tensor


@dataclass(frozen=True)
class UnbiasedMarkov(Markov):
    """A Markov sequence for an unbiased compressor; DASHA lets its errors decay."""

    is_coordinatewise = True
    is_mirrored = True
    mean_over = "all"

    def __post_init__(self) -> None:
        self._check_unbiased("DASHA")


@dataclass(frozen=True, kw_only=True)
class Dasha(Algorithm):
    """Rounds in which each message corrects a share a of the error of ĝ_i."""

    rate: float | None
    form: Literal["code", "paper"]
    learnt_start: bool

    is_coordinatewise = True
    needs_all = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "rate", span="[0, 1]")

    def start_moments(self, like: Tensor) -> LastGradient:
        return LastGradient(h=like.new_zeros(like.shape))

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        gradient, (h,) = self.update.worker_message(gradient, replica.x, replica.moments, t), state.moments
        if not isinstance(state.memory, Tensor):  # an uncompressed parameter group has no errors
            return gradient, LastGradient(h=gradient)
        if t == 1 and self.learnt_start:
            h = gradient
        omega = self.uplink.compressor.omega(gradient.shape[-1])
        a = 1 / (2 * omega + 1) if self.rate is None else self.rate
        return state.memory + (gradient - h) - a * (state.memory - h), LastGradient(h=gradient)

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        return dasha_step_size(smoothness, worker_smoothness, self.uplink.compressor.omega(d), workers, self.form)

    def check(self, d: int) -> None:
        super().check(d)
        self.uplink.compressor.omega(d)


def dasha(
    compressor: Compressor,
    update: SGD,
    rate: float | None = None,  # a, share of the error ĝ_i − h_i corrected each round; null: 1/(2ω+1)
    start: Start = "dense",  # the first message. dense: g_i uncompressed; zero: C(g_i); share: C(a·g_i)
    form: Literal["code", "paper"] = "code",  # of the step size of theory; paper: as recalled, unverified
) -> Algorithm:
    """MARINA without uncompressed rounds: each message also corrects a share a of the compression error.

        worker   c_i = C(g_i − h_i − a(ĝ_i − h_i)),  ĝ_i ← ĝ_i + c_i,  h_i ← g_i
        server   ĝ ← ĝ + mean_i c_i,  sends ĝ
        replica  x ← x − αĝ

    After round 1 ĝ_i = h_i = g_i with `start: dense`. With `zero`, ĝ_i = h_i = 0 before it, so ĝ_i = C(g_i). With
    `share`, ĝ_i = 0 and h_i = g_i before it, so ĝ_i = C(a·g_i).
    State: h_i and ĝ_i [d] on every worker; ĝ [d] on the server.
    Wire: 32d bits up in round 1 with `start: dense`, then one message of an unbiased C; 32d bits down.
    Source: Tyurin and Richtárik, DASHA: Distributed Nonconvex Optimization with Communication Compression and Optimal
    Oracle Complexity, 2023 (arXiv 2202.01268), with full gradients. a and the start `share` are its authors' code's.
    a = 1 with a contractive C would be EF21. The step size of theory is `dasha_step_size`.
    """
    return Dasha(make_uplink(compressor, start), dense(), update, rate=rate, form=form, learnt_start=start == "share")


def make_uplink(compressor: Compressor, start: Start) -> UnbiasedMarkov:
    """Return the uplink for a start. Raises ValueError for an unknown one."""
    check_words(make_uplink, locals())
    return UnbiasedMarkov(compressor, dense_rounds=int(start == "dense"))


def dasha_step_size(
    smoothness: float, worker_smoothness: float, omega: float, workers: int, form: Literal["code", "paper"] = "code"
) -> float:
    """γ = 1/(L + L̃√(ω(4ω+1)/n)) for DASHA on full gradients of n workers, as in its authors' code with mean_i L_i for
    L. Form `paper` has √(16ω(2ω+1)/n), Theorem 6.1 (recalled, unverified)."""
    variance = omega * (4 * omega + 1) if form == "code" else 16 * omega * (2 * omega + 1)
    return 1 / (smoothness + worker_smoothness * (variance / workers) ** 0.5)
