"""Distributed AMSGrad, uncompressed."""

from .bases import Algorithm, AMSGrad, Direct, Floats


def amsgrad(compressor: Floats, update: AMSGrad) -> Algorithm:
    """CD-Adam without compression: g_i up, ḡ = mean_i g_i down, AMSGrad on every replica.

        m ← β₁m + (1−β₁)ḡ,  v ← β₂v + (1−β₂)ḡ²,  v̂ ← max(v̂, v),  x ← x − α·m/√(v̂ + ν)

    State: replica, m, v and v̂ [d].
    Wire: 32d bits up, 32d down. With the casts bf16, fp16 and fp8 one message of C each way, for g_i and for ḡ.
    Source: CD-Adam paper, section 3 (Reddi et al. 2019); `update.form: torch` is the authors' code.
    """
    return Algorithm.from_channel(Direct(compressor), update)
