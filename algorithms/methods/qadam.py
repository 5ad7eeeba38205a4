"""QAdam: dense Adam as warm-up, then 8-bit momentum under a frozen second moment."""

from typing import Any

from .bases import Algorithm, Compressor, Direct
from .bases.frozen_adam import FrozenAdam, warmup_rounds


def qadam(
    compressor: Compressor,
    rounds: int,
    warmup: float = 0.2,  # dense rounds T_w: a share of the run, or a number of rounds
    beta1: float = 0.9,  # β₁, how much of m is kept each round
    beta2: float = 0.999,  # β₂, how much of v is kept each round
    eps: float = 1e-8,  # ε, added to the root of v
    weight_decay: float = 0.0,  # λ, added to g_i before momentum is formed
    decoupled: bool = False,  # true: x ← x − αλx instead
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
) -> Algorithm:
    """1-bit Adam with finer codes, which need no error feedback.

        t ≤ T_w  ḡ = mean_i g_i,  m ← β₁m + (1−β₁)ḡ,  v ← β₂v + (1−β₂)ḡ²
        t > T_w  worker   m_i = β₁m + (1−β₁)g_i,  c_i = C(m_i)
                 server   z = C(mean_i c_i)                       (dense where `uplink_only`)
                 replica  m ← z
        always   x ← x − α/(1−β₁^t)·m/(√v/√(1−β₂^t) + ε)

    State: m and v [d] on every replica.
    Wire: 32d bits each way for T_w rounds, then one message of C each way, 8d + 64 bits with min_max_uint8.
    Source: Bagua's QAdam. Its bias correction also continues after v is frozen.
    Differences: Bagua compresses in one chunk per worker (here the whole vector), drops the gradient of the switching
    round and loses weight decay after it.
    """
    adam: dict[str, Any] = {"beta1": beta1, "beta2": beta2, "nu": eps, "weight_decay": weight_decay}
    update = FrozenAdam(warmup=warmup_rounds(warmup, rounds), mask=False, form="torch", decoupled=decoupled, **adam)
    return Algorithm.from_channel(Direct(compressor, dense_rounds=update.warmup), update, uplink_only)
