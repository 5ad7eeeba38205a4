"""Worker-side momentum."""

from dataclasses import dataclass

from torch import Tensor

from . import SGD, Algorithm, Lr, Moments, Momentum, ReplicaState, Wanted, WorkerState, check_range


@dataclass(frozen=True, kw_only=True)
class WorkerMomentum(Algorithm):
    """Rounds in which worker i sends w_i = β₁m_i + (1−β₁)g_i and keeps m_i ← β₂m_i + (1−β₂)g_i, zero at first."""

    beta1: float
    beta2: float

    is_coordinatewise = True
    needs_all = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "beta1", "beta2")

    def start_moments(self, like: Tensor) -> Momentum:
        return Momentum(m=like.new_zeros(like.shape))

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        gradient, (m,) = self.update.worker_message(gradient, replica.x, replica.moments, t), state.moments
        return self.beta1 * m + (1 - self.beta1) * gradient, Momentum(self.beta2 * m + (1 - self.beta2) * gradient)


@dataclass(frozen=True, kw_only=True)
class DecaySent(SGD):
    """SGD for messages formed from g_i + λx: weight decay is not added again to the signal."""

    is_coordinatewise = True

    def receives_gradient(self, t: int) -> bool:
        return False

    def worker_message(self, gradient: Tensor, x: Tensor, moments: Moments, t: int) -> Tensor:
        coupled = self.weight_decay and not self.decoupled
        return gradient + self.weight_decay * x.unsqueeze(-2) if coupled else gradient
