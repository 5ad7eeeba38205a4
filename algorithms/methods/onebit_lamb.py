"""1-bit LAMB: dense LAMB as warm-up, then one-bit momentum under a frozen second moment and ratio of lengths."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.layout import Layout
from .bases import Algorithm, Compressor, ErrorFeedback, Lr
from .bases.frozen_adam import warmup_rounds
from .lamb import Lamb

KEPT = 0.9  # share of the average of r kept each round
LEAST_FACTOR, MOST_FACTOR, CHANGE = 0.5, 4.0, 0.1  # bounds of f, and its largest change in a round


class LambMoments(NamedTuple):
    m: Tensor
    v: Tensor
    fresh: Tensor  # v without freezing, from received momenta
    ratio: Tensor  # c̄, the average of r [*T, B], of B tensors
    factor: Tensor  # f [*T, B]
    scale: Tensor  # σ [*T, B]


@dataclass(frozen=True, kw_only=True)
class OnebitLamb(Lamb):
    """LAMB for `warmup` rounds; later it receives momentum times σ of the tensor."""

    warmup: int

    def start(self, x: Tensor) -> LambMoments:  # pyright: ignore[reportIncompatibleMethodOverride]
        zero, none = torch.zeros_like(x), x.new_zeros(*x.shape[:-1], len(self.layout))
        one = torch.ones_like(none)
        return LambMoments(m=zero, v=zero, fresh=zero, ratio=none, factor=one, scale=one)

    def worker_message(self, gradient: Tensor, x: Tensor, moments: LambMoments, t: int) -> Tensor:
        if t <= self.warmup:
            return gradient
        m = self.beta1 * moments.m.unsqueeze(-2) + (1 - self.beta1) * gradient
        return m * self.spread(moments.scale).unsqueeze(-2)

    def step(self, x: Tensor, u: Tensor, moments: LambMoments, lr: Lr, t: int) -> tuple[Tensor, LambMoments]:
        return self._step_dense(x, u, moments, lr, t) if t <= self.warmup else self._step_onebit(x, u, moments, lr)

    def _step_dense(self, x: Tensor, u: Tensor, moments: LambMoments, lr: Lr, t: int) -> tuple[Tensor, LambMoments]:
        m, v = self._averages(u, moments)
        step = self._direction(m, v, t) + self.weight_decay * x
        ratio = self.ratio(x, step)
        average = torch.where(ratio == 1, moments.ratio, KEPT * moments.ratio + (1 - KEPT) * ratio)
        moments = moments._replace(m=m, v=v, fresh=v, ratio=average)
        if t == self.warmup:
            moments = moments._replace(scale=self._scale(m))
        return x - lr * self.spread(ratio) * step, moments

    def _step_onebit(self, x: Tensor, u: Tensor, moments: LambMoments, lr: Lr) -> tuple[Tensor, LambMoments]:
        v, root = moments.v, moments.v.sqrt() + self.nu
        m = torch.where(v > 0, u / self.spread(moments.scale), 0)
        gradient = (m - self.beta1 * moments.m) / (1 - self.beta1)
        fresh = self.beta2 * moments.fresh + (1 - self.beta2) * gradient * gradient
        direction = m / root
        step = direction + self.weight_decay * x
        factor = self.measure_tensors(root / (fresh.sqrt() + self.nu), lambda part: part.amax(-1))
        if self.weight_decay:
            share = (self.lengths(direction) / self.lengths(step)).clamp(max=1).nan_to_num(1.0)  # 0/0 where x is 0
            factor = factor * share + 1 - share
        last = moments.factor
        factor = factor.clamp(LEAST_FACTOR, MOST_FACTOR).clamp(last * (1 - CHANGE), last * (1 + CHANGE))
        x = x - lr * self.spread(moments.ratio * factor) * step
        return x, moments._replace(m=m, fresh=fresh, factor=factor)

    def _scale(self, m: Tensor) -> Tensor:
        """σ_j = mean_i r_i / r_j with r_j = ‖m_j‖/√d_j gives all tensors one scale; 1 where m_j is zero."""
        typical = self.lengths(m) / self.lengths(torch.ones_like(m))
        return torch.where(typical > 0, typical.mean(-1, keepdim=True) / typical, 1.0)


def onebit_lamb(
    compressor: Compressor,
    rounds: int,
    layout: Layout = (),
    warmup: float = 0.2,  # dense rounds T_w: a share of the run, or a number of rounds
    beta1: float = 0.9,  # β₁, how much of m is kept each round
    beta2: float = 0.999,  # β₂, how much of v is kept each round
    eps: float = 1e-8,  # ε, added to the root of v
    weight_decay: float = 0.0,  # λ, added to the step before its length is taken
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
) -> Algorithm:
    """Learn LAMB's second moment and ratios of lengths in T_w dense rounds, then compress momentum.

        t ≤ T_w  LAMB's step;  c̄_j ← 0.9c̄_j + 0.1r_j where r_j ≠ 1;  at T_w  w ← v,  σ_j = mean_k ρ_k/ρ_j,
                 ρ_j = ‖m_j‖/√d_j
        t > T_w  worker   m_i = (β₁m + (1−β₁)g_i)σ,  u_i = m_i + δ_i,  c_i = C(u_i),  δ_i ← u_i − c_i
                 server   y = mean_i c_i + δ_s,  z = C(y),  δ_s ← y − z      (dense where `uplink_only`)
                 replica  m' = z/σ, zero where v = 0,  g' = (m' − β₁m)/(1−β₁),  w ← β₂w + (1−β₂)g'²,  m ← m'
                          P = m/(√v + ε),  U = P + λx,  f_j = max((√v + ε)/(√w + ε)) over the tensor
                          where λ > 0:  f_j ← f_j·s + 1 − s,  s = min(1, ‖P_j‖/‖U_j‖)
                          f_j within [0.5, 4], and within a tenth of the last;  x_j ← x_j − α·c̄_j·f_j·U_j

    All tensors are treated alike, independent of their roles. f_j starts at 1 and c̄_j at 0, as in the code, so T_w
    should be well above 1/(1 − 0.9).
    State: δ_i [d] on every worker, δ_s [d] on the server, zero at the switch; m, v and w [d] on every replica, and
    three numbers per tensor.
    Wire: 32d bits each way for T_w rounds, then one message of C each way, d + 32 bits with the scaled sign.
    Source: Li et al., 1-bit LAMB: Communication Efficient Large-Scale Large-Batch Training with LAMB's Convergence
    Speed, 2021 (arXiv 2104.06069); the arithmetic and its constants are DeepSpeed's. T_w is 100,000 rounds there.
    Differences: One server holds δ_s, no first gradient is dropped, m is zero where v is, and σ_j is 1 where m_j is
    zero.
    """
    update = OnebitLamb(
        layout=layout, warmup=warmup_rounds(warmup, rounds), beta1=beta1, beta2=beta2, nu=eps, form="uncorrected",
        weight_decay=weight_decay,
    )  # fmt: skip
    return Algorithm.from_channel(ErrorFeedback(compressor, dense_rounds=update.warmup), update, uplink_only)
