"""0/1 Adam: one bit from the start, ever rarer updates of v, then ever longer intervals of local steps."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.algorithm import ReplicaState, Stage, Wanted, WorkerState
from ..utils.rounding import floored_share
from .bases import Adam, AdamMoments, Algorithm, Compressor, ErrorFeedback, Identity, Lr, MessageKey, Payload
from .bases.frozen_adam import warmup_rounds
from .bases.server_weights import worker_lr


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The kinds of rounds: the first `freeze` have a common model, later ones local steps."""

    freeze: int  # T_v
    kappa: int  # κ, dense rounds after which the interval between them doubles
    stretch: int  # rounds of local steps after which the interval between exchanges doubles
    longest: int  # H, the longest of these intervals

    def __post_init__(self) -> None:
        for name in ("kappa", "stretch", "longest"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1")

    def learns_v(self, t: int) -> bool:
        """Whether gradients cross uncompressed in round t and update v."""
        if t > self.freeze:
            return False
        end, interval = self.kappa, 1  # the last dense round of this interval
        while t > end:
            interval *= 2
            end = interval * (end // interval + self.kappa)
        return t % interval == 0

    def has_exchange(self, t: int) -> bool:
        """Whether round t has an exchange."""
        doublings = min((t - self.freeze - 1) // self.stretch, self.longest.bit_length())
        return t <= self.freeze or t % min(self.longest, 2**doublings) == 0


@dataclass(frozen=True)
class Intermittent(ErrorFeedback):
    """Error feedback, except in dense rounds, which keep the memory. The memory restarts after T_v."""

    schedule: Schedule = field(kw_only=True)

    is_coordinatewise = True

    def codec(self, t: int) -> Compressor:
        return Identity() if self.schedule.learns_v(t) else super().codec(t)

    def send(self, w: Tensor, memory: Tensor, key: MessageKey) -> tuple[Payload, Tensor]:
        if self.schedule.learns_v(key.round):
            return self.codec(key.round).encode(w, key), memory
        begins = key.round == self.schedule.freeze + 1
        return super().send(w, torch.zeros_like(memory) if begins else memory, key)


@dataclass(frozen=True, kw_only=True)
class IntermittentAdam(Adam):
    """Adam that updates v only in dense rounds. In others m is zero where v is zero."""

    schedule: Schedule

    def direction(self, u: Tensor, moments: AdamMoments, t: int) -> tuple[Tensor, AdamMoments]:
        if self.schedule.learns_v(t):
            return super().direction(u, moments, t)
        v = moments.v
        m = torch.where(v > 0, self.beta1 * moments.m + (1 - self.beta1) * u, 0)
        return self._direction(m, v, t), AdamMoments(m=m, v=v)

    def root(self, v: Tensor) -> Tensor:
        """Return the divisor of a step."""
        return v.sqrt() + self.nu


class LocalMoments(NamedTuple):
    m: Tensor  # [*T, W, d]
    lr: Tensor  # [*T, W, 1], the step sizes since the last exchange, added up


@dataclass(frozen=True, kw_only=True)
class ZeroOneAdam(Algorithm):
    """A common model for T_v rounds, then local steps. A replica's m is then Σαm since the last exchange."""

    update: IntermittentAdam

    is_coordinatewise = True
    has_local_models = True
    needs_all = "errors begin anew in one round, which an absent worker would miss"

    def start_workers(self, x: Tensor, ids: Tensor) -> WorkerState:
        models = x.unsqueeze(-2).repeat_interleave(len(ids), -2)
        moments = LocalMoments(m=torch.zeros_like(models), lr=torch.zeros_like(models[..., :1]))
        return replace(super().start_workers(x, ids), moments=moments, x=models)

    def stages(self, t: int, lr: Lr = 0.0) -> tuple[Stage, ...]:
        return (self,) if self.update.schedule.has_exchange(t) else ()

    def local_step(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> WorkerState:
        if t <= self.update.schedule.freeze:
            return state
        own = state.moments
        moments = AdamMoments(m=own.m, v=replica.moments.v.unsqueeze(-2))
        x, moments = self.update.step(state.x, gradient, moments, worker_lr(lr), t)
        return replace(state, x=x, moments=LocalMoments(m=moments.m, lr=own.lr + worker_lr(lr)))

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        if t <= self.update.schedule.freeze:
            return gradient, state.moments
        root = self.update.root(replica.moments.v).unsqueeze(-2)
        return (state.x - replica.x.unsqueeze(-2)) * root, state.moments

    def apply_signal(self, signal: Tensor, state: ReplicaState, lr: Lr, t: int, norm: Tensor | None) -> ReplicaState:
        if t <= self.update.schedule.freeze:
            return super().apply_signal(signal, state, lr, t, norm)
        v = state.moments.v
        u = torch.where(v > 0, self.clip_aggregate(signal, norm), 0)
        x = state.x + u / self.update.root(v)
        return replace(state, x=x, signal=signal, moments=AdamMoments(m=-u, v=v))

    def sync_workers(self, state: WorkerState, replica: ReplicaState, t: int) -> WorkerState:
        models = replica.x.unsqueeze(-2).repeat_interleave(len(state.ids), -2)
        own, m = state.moments, replica.moments.m.unsqueeze(-2)
        if t > self.update.schedule.freeze:
            m = torch.where(own.lr > 0, m / own.lr, own.m)  # where α was zero nothing moved
        m = m.expand_as(models).contiguous()
        return replace(state, x=models, moments=LocalMoments(m=m, lr=torch.zeros_like(own.lr)))


def zero_one_adam(
    compressor: Compressor,
    rounds: int,
    warmup: float = 0.25,  # T_v, rounds of a common model, in which v is learnt: a share of the run, or a number
    kappa: int = 16,  # κ, dense rounds after which the interval between them doubles
    stretch: float = 0.25,  # rounds of local steps after which the interval between exchanges doubles: as T_v
    longest: int = 16,  # H, the longest interval between exchanges
    beta1: float = 0.9,  # β₁, how much of m is kept each round
    beta2: float = 0.999,  # β₂, how much of v is kept each dense round
    eps: float = 1e-8,  # ε, added to the root of v
    weight_decay: float = 0.0,  # λ, of x ← x − αλx
) -> Algorithm:
    """Compress Adam's gradients from the start, learn v in ever fewer rounds, then take local steps.

        t ≤ T_v  t = I, 2I, …   ḡ = mean_i g_i,  v ← β₂v + (1−β₂)ḡ²  (I = 1, and 2I after κ of these)
                 else           ḡ = z of y = mean_i C(g_i + δ_i) + δ_s,  z = C(y)  (v stays)
                 replica        m ← β₁m + (1−β₁)ḡ,  x ← x − α(m/(√v + ε) + λx)
        t > T_v  worker         m_i ← β₁m_i + (1−β₁)g_i,  x_i ← x_i − α(m_i/(√v + ε) + λx_i)
                 t = J, 2J, …   u_i = (x_i − x)(√v + ε),  z from u_i as from g_i above
                                x ← x + z/(√v + ε),  x_i ← x,  m_i ← −z/Σα
                                (J = 1, and min(H, 2J) after `stretch` rounds each)

    Σα is over the rounds since the last exchange. Where v = 0, m, m_i and z are zero. Up to T_v only λ moves such a
    coordinate; after T_v every exchange undoes that. With κ ≥ T_v the first T_v rounds are Adam's.
    State: δ_i, m_i and x_i [d] and Σα on every worker, δ_s [d] on the server, both δ zero at T_v; m, v and x [d] on
    every replica.
    Wire: 32d bits each way in rounds that learn v. One message of C each way in the others up to T_v, and in
    exchanges after it: d + 32 bits with the scaled sign. 0 in the rounds between exchanges.
    Source: Lu et al., Maximizing Communication Efficiency for Large-scale Training via 0/1 Adam, 2022 (arXiv
    2202.06009), by its authors' DeepSpeed optimizer: no bias correction, ε outside the root, `stretch` in rounds and
    H as an interval. T_v = 100,000 and `stretch` = 32,678 there.
    Differences: One server holds δ_s; there all workers do. A resumed run keeps its intervals, no first gradient is
    dropped, v is never learnt after T_v, and m, m_i and z are zero where v is.
    """
    if not stretch > 0:  # also nan
        raise ValueError(f"stretch={stretch}: must be at least 1 round, or a positive share of all rounds")
    schedule = Schedule(
        freeze=warmup_rounds(warmup, rounds),
        kappa=kappa,
        stretch=stretch if isinstance(stretch, int) else max(1, floored_share(stretch, rounds)),
        longest=longest,
    )
    update = IntermittentAdam(
        schedule=schedule, beta1=beta1, beta2=beta2, nu=eps, form="uncorrected", weight_decay=weight_decay,
        decoupled=True,
    )  # fmt: skip
    channel = Intermittent(compressor, schedule=schedule)
    return ZeroOneAdam(uplink=channel, downlink=channel, update=update)
