"""EF21 with momentum, for stochastic gradients."""

from dataclasses import dataclass

from torch import Tensor

from algorithms.compressors import Compressor
from algorithms.core.algorithm import Algorithm, ReplicaState, WorkerState
from algorithms.core.channels import Markov, dense
from algorithms.core.update_rules import SGD, Momentum


@dataclass(frozen=True, kw_only=True)
class WorkerMomentum(Algorithm):
    """Rounds with worker-side momentum."""

    eta: float

    def __post_init__(self) -> None:
        if not 0 < self.eta <= 1:
            raise ValueError(f"eta={self.eta}: must lie in (0, 1]")

    def start_moments(self, like: Tensor) -> Momentum:
        return Momentum(m=like.new_zeros(like.shape))

    def worker_message(
        self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: float | Tensor, t: int
    ) -> tuple[Tensor, Momentum]:
        (before,) = state.moments
        m = gradient if t == 1 else (1 - self.eta) * before + self.eta * gradient
        return m, Momentum(m=m)


def ef21_momentum(compressor: Compressor, update: SGD, eta: float = 0.1, uplink_only: bool = False) -> Algorithm:
    """EF21 on momentum, which converges with small batches.

        worker   m_i ← (1−η)m_i + ηg_i (m_i = g_i at first),  c_i = C(m_i − ĝ_i),  ĝ_i ← ĝ_i + c_i
        server   ĝ ← ĝ + mean_i c_i,  c̃ = C(ĝ − g̃),  g̃ ← g̃ + c̃      (ĝ itself goes down where `uplink_only`)
        replica  g̃ ← g̃ + c̃,  x ← x − αg̃

    State: m_i and ĝ_i [d] on every worker; ĝ and g̃ [d] on the server; g̃ [d] on every replica.
    Wire: one message of C up and one down.
    Source: Fatkhullin, Tyurin and Richtárik, Momentum Provably Improves Error Feedback!, 2023 (EF21-SGDM, with a
    dense downlink), extended to both directions like the project's EF21.
    """
    channel = Markov(compressor)
    return WorkerMomentum(uplink=channel, downlink=dense() if uplink_only else channel, update=update, eta=eta)
