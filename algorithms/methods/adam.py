"""Distributed Adam, uncompressed."""

from .bases import Adam, Algorithm, Direct, Floats


def adam(compressor: Floats, update: Adam) -> Algorithm:
    """The plain baseline: g_i up, ḡ = mean_i g_i down, Adam on every replica.

        m ← β₁m + (1−β₁)ḡ,  v ← β₂v + (1−β₂)ḡ²,  x ← x − α·m/√(v + ν)

    State: replica, m and v [d].
    Wire: 32d bits up, 32d down. With the casts bf16, fp16 and fp8 one message of C each way, for g_i and for ḡ.
    Source: Kingma and Ba 2014; `update.form: torch` has torch.optim.Adam's bias correction and place of ν.
    """
    return Algorithm.from_channel(Direct(compressor), update)
