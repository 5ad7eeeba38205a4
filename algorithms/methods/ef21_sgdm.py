"""EF21-SGDM: EF21 on momenta, for stochastic gradients."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from .bases import Algorithm, Compressor, Lr, Markov, Momentum, ReplicaState, Wanted, WorkerState, check_range, dense
from .bases.worker_momentum import DecaySent


class DoubleMomentum(NamedTuple):
    v: Tensor
    u: Tensor


@dataclass(frozen=True, kw_only=True)
class FirstGradientMomentum(Algorithm):
    """Rounds with worker-side momentum that starts at the first gradient."""

    eta: float
    double: bool

    is_coordinatewise = True
    needs_all = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "eta", span="(0, 1]")

    def start_moments(self, like: Tensor) -> Momentum | DoubleMomentum:
        zeros = like.new_zeros(like.shape)
        return DoubleMomentum(v=zeros, u=zeros) if self.double else Momentum(m=zeros)

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        average, averages = self.update.worker_message(gradient, replica.x, replica.moments, t), []
        for before in state.moments:
            average = average if t == 1 else (1 - self.eta) * before + self.eta * average
            averages.append(average)
        return average, type(state.moments)(*averages)


def ef21_sgdm(
    compressor: Compressor,
    eta: float = 0.1,  # η, how much of the new gradient enters v_i
    double: bool = False,  # true: EF21-SGD2M, which averages v_i again
    weight_decay: float = 0.0,  # λ, added to g_i before momentum is formed
    decoupled: bool = False,  # true: x ← x − αλx instead
    uplink_only: bool = True,  # false: compress the downlink too, unlike the paper
    dense_start: bool = True,  # true: the first vectors cross uncompressed, 32d bits
) -> Algorithm:
    """Momentum before EF21's compressor, so that batches of one row suffice.

        worker   v_i ← (1−η)v_i + ηg_i,  `double`: u_i ← (1−η)u_i + ηv_i,  w_i = v_i or u_i
                 c_i = C(w_i − ĝ_i),  ĝ_i ← ĝ_i + c_i
        server   ĝ ← ĝ + mean_i c_i,  sends ĝ                    (Markov too unless `uplink_only`)
        replica  x ← x − αĝ

    In round 1 v_i = u_i = g_i, and with `dense_start` ĝ_i = g_i.
    State: v_i, u_i where `double`, and ĝ_i [d] on every worker; ĝ [d] on the server.
    Wire: 32d bits up in round 1, then one message of C, 64k bits with top-k; 32d bits down.
    Source: Fatkhullin, Tyurin and Richtárik, Momentum Provably Improves Error Feedback!, 2023 (arXiv 2305.15155),
    with the defaults of its authors' code. η = 1 is EF21. The step size of theory is EF21's, larger
    than the paper's Theorem 3 allows for small η.
    Differences: The dense start is counted, but not in the authors' code. The paper starts from a larger batch. The
    authors' code never applies its weight decay.
    """
    up = Markov(compressor, dense_rounds=int(dense_start))
    update = DecaySent(weight_decay=weight_decay, decoupled=decoupled)
    return FirstGradientMomentum(up, dense() if uplink_only else up, update, eta=eta, double=double)
