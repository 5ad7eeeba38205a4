"""1-bit Adam: dense Adam as warm-up, then one-bit momentum under a frozen second moment."""

from typing import Any, Literal

from .bases import Algorithm, Compressor, ErrorFeedback
from .bases.frozen_adam import FrozenAdam, warmup_rounds


def onebit_adam(
    compressor: Compressor,
    rounds: int,
    warmup: float = 0.13,  # dense rounds T_w: a share of the run, or a number of rounds
    signal: Literal["momentum", "gradient"] = "momentum",  # the message; gradient: the CD-Adam authors' baseline
    beta1: float = 0.9,  # β₁, how much of m is kept each round
    beta2: float = 0.999,  # β₂, how much of v is kept each round
    eps: float = 1e-8,  # ε, added to the root of v
    form: Literal["paper", "uncorrected", "torch"] = "uncorrected",  # DeepSpeed's; torch: the CD-Adam authors'
    weight_decay: float = 0.0,  # λ, added to g_i before momentum is formed
    decoupled: bool = False,  # true: x ← x − αλx instead
    uplink_only: bool = False,  # true: the downlink stays dense, 32d bits
) -> Algorithm:
    """Learn Adam's second moment in T_w dense rounds, then freeze it and compress momentum.

        t ≤ T_w  ḡ = mean_i g_i,  m ← β₁m + (1−β₁)ḡ,  v ← β₂v + (1−β₂)ḡ²
        t > T_w  worker   m_i = β₁m + (1−β₁)g_i,  u_i = m_i + δ_i,  c_i = C(u_i),  δ_i ← u_i − c_i
                 server   y = mean_i c_i + δ_s,  z = C(y),  δ_s ← y − z      (dense where `uplink_only`)
                 replica  m ← z, zero where v = 0
        always   x ← x − α·m/(√v + ε)

    State: δ_i [d] on every worker, δ_s [d] on the server, zero at the switch; m and v [d] on every replica.
    Wire: 32d bits each way for T_w rounds, then one message of C each way, d + 32 bits with the scaled sign.
    Source: Tang et al. 2021; the arithmetic (no bias correction, ε outside the root, C's scale ‖u‖₂/√d, the mask
    where v = 0) is DeepSpeed's. The warm-up of 13 % is the paper's 13 epochs of 100. `signal: gradient` with `form:
    torch` and β₂ = 0.99 is the CD-Adam authors' baseline.
    Differences: One server holds δ_s for the whole vector; DeepSpeed has a chunk on every worker. No first gradient
    is dropped, weight decay is added to g_i (`decoupled` for DeepSpeed's), and checkpoints keep the errors. The
    CD-Adam authors' baseline has no mask, sgn(0) = 0, and freezes v two rounds before it compresses.
    """
    adam: dict[str, Any] = {"beta1": beta1, "beta2": beta2, "nu": eps, "weight_decay": weight_decay}
    update = FrozenAdam(warmup=warmup_rounds(warmup, rounds), signal=signal, form=form, decoupled=decoupled, **adam)
    return Algorithm.from_channel(ErrorFeedback(compressor, dense_rounds=update.warmup), update, uplink_only)
