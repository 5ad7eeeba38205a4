"""APMSqueeze: Adam-preconditioned momentum SGD with one-bit messages, a predecessor of 1-bit Adam."""

from typing import Any

from .bases import Algorithm, Compressor, ErrorFeedback
from .bases.frozen_adam import FrozenAdam, warmup_rounds


def apmsqueeze(
    compressor: Compressor,
    rounds: int,
    warmup: float = 0.13,  # dense rounds T_w: a share of the run, or a number of rounds
    beta1: float = 0.9,  # β₁, how much of m is kept each round
    beta2: float = 0.999,  # β₂, how much of v is kept each round
    eps: float = 1e-8,  # ε, added to the root of v
    weight_decay: float = 0.0,  # λ, added to g_i before momentum is formed
    decoupled: bool = False,  # true: x ← x − αλx instead
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
) -> Algorithm:
    """Momentum SGD with a fixed preconditioner: v after T_w rounds of Adam.

        t ≤ T_w  ḡ = mean_i g_i,  m ← β₁m + (1−β₁)ḡ,  v ← β₂v + (1−β₂)ḡ²,  x ← x − α·m/(√v + ε)
        t > T_w  worker   m_i = β₁m + (1−β₁)g_i,  u_i = m_i + δ_i,  c_i = C(u_i),  δ_i ← u_i − c_i
                 server   y = mean_i c_i + δ_s,  z = C(y),  δ_s ← y − z      (dense where `uplink_only`)
                 replica  m ← z, zero where v = 0;  x ← x − α·m/√max(v, 1e-16)

    State: δ_i [d] on every worker, δ_s [d] on the server, zero at the switch; m and v [d] on every replica.
    Wire: 32d bits each way for T_w rounds, then one message of C each way, d + 32 bits with the scaled sign.
    Source: the abstract of Tang et al., APMSqueeze. The rest is 1-bit Adam with another preconditioner.
    """
    adam: dict[str, Any] = {"beta1": beta1, "beta2": beta2, "nu": eps, "form": "uncorrected"}
    decay: dict[str, Any] = {"weight_decay": weight_decay, "decoupled": decoupled}
    update = FrozenAdam(warmup=warmup_rounds(warmup, rounds), floor=1e-16, **adam, **decay)
    return Algorithm.from_channel(ErrorFeedback(compressor, dense_rounds=update.warmup), update, uplink_only)
