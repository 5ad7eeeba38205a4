"""Quantized Adam with error feedback: local Adam steps go up, quantized weights come down."""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, Self

from torch import Tensor

from ..compressors.blocks import Blocks
from ..compressors.scaled_codes import UniformQuantize
from ..core.algorithm import ReplicaState, Wanted, WorkerState
from .bases import SGD, AdamMoments, Algorithm, Compressor, Direct, ErrorFeedback, Lr, check_range, dense
from .bases.server_weights import ServerModel, worker_lr


@dataclass(frozen=True, kw_only=True)
class QuantizedAdam(ServerModel):
    beta: float
    theta: float
    eps: float
    theta_schedule: Literal["constant", "one_minus_theta_over_t"]
    weight_decay: float

    is_coordinatewise = True
    needs_all = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "beta", "theta")
        if not self.eps > 0:  # also nan
            raise ValueError(f"eps={self.eps}: must be positive, or a coordinate without gradient divides 0 by 0")
        if not 0 <= self.weight_decay < inf:
            raise ValueError(f"weight_decay={self.weight_decay}: must be finite and not negative")

    def hyperparameters(self) -> dict[str, Any]:
        return {"weight_decay": self.weight_decay, "betas": (self.beta, self.theta)}

    def with_hyperparameters(self, **values: Any) -> Self:
        if "betas" in values:
            values["beta"], values["theta"] = values.pop("betas")
        return replace(self, **values)

    def start_moments(self, like: Tensor) -> AdamMoments:
        return AdamMoments(m=like.new_zeros(like.shape), v=like.new_zeros(like.shape))

    def worker_message(self, gradient: Tensor, state: WorkerState, replica: ReplicaState, lr: Lr, t: int) -> Wanted:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * replica.x.unsqueeze(-2)
        theta = self.theta if self.theta_schedule == "constant" else 1 - self.theta / t
        m, v = state.moments
        v = theta * v + (1 - theta) * gradient * gradient
        m = self.beta * m + (1 - self.beta) * gradient
        return worker_lr(lr) * m / (v + self.eps).sqrt(), AdamMoments(m=m, v=v)


def quantized_adam(
    compressor: Compressor,
    weight_bits: int = 8,  # of a coordinate of the weights that come down
    beta: float = 0.9,  # β, how much of m is kept each round
    theta: float = 0.999,  # θ, how much of v is kept each round
    eps: float = 1e-8,  # ε, added to v under the root
    theta_schedule: Literal["constant", "one_minus_theta_over_t"] = "constant",  # of θ_t: θ, or 1 − θ/t
    weight_decay: float = 0.0,  # λ, added to g_i
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
) -> Algorithm:
    """Every worker runs Adam on its own gradients. Steps are compressed with error feedback, weights without.

        worker   g_i at the received weights,  v_i ← θ_t v_i + (1−θ_t)g_i²,  m_i ← βm_i + (1−β)g_i
                 s_i = α_t m_i/√(v_i + ε) + e_i,  q_i = Q_g(s_i),  e_i ← s_i − q_i
        server   x ← x − mean_i q_i,  sends Q_x(x)                          (x itself where `uplink_only`)
        replica  x ← Q_x(x)

    State: m_i, v_i and e_i [d] on every worker; x [d] on the server. Evaluations measure Q_x(x).
    Wire: Q_g up, b·d + 32 bits with log_quantize; Q_x down, uniform_quantize with `weight_bits`, likewise b·d + 32.
    Source: the abstract of Chen, Shen, Huang and Liu 2021. The quantizers, their levels and the order of the steps
    are this project's reading.
    """
    weights = UniformQuantize(weight_bits)
    quantizer = Blocks(weights, compressor.sizes) if isinstance(compressor, Blocks) else weights
    up, down = ErrorFeedback(compressor), dense() if uplink_only else Direct(quantizer)
    return QuantizedAdam(
        up, down, SGD(), beta=beta, theta=theta, eps=eps, theta_schedule=theta_schedule, weight_decay=weight_decay
    )
