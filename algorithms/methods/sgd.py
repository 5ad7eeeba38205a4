"""Distributed SGD, uncompressed."""

from .bases import SGD, Algorithm, Direct, Floats


def sgd(compressor: Floats, update: SGD) -> Algorithm:
    """The plain baseline: g_i up, their mean down, x ← x − α·mean_i g_i (momentum optional).

    State: replica, the momentum buffer [d], if there is momentum.
    Wire: 32d bits up, 32d down. With the casts bf16, fp16 and fp8 one message of C each way, for g_i and for ḡ.
    """
    return Algorithm.from_channel(Direct(compressor), update)
