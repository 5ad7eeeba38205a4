"""Distributed SGD, uncompressed."""

from .bases import SGD, Algorithm, Identity, dense


def sgd(compressor: Identity, update: SGD) -> Algorithm:
    """The plain baseline: g_i up, their mean down, x ← x − α·mean_i g_i (momentum optional).

    State: replica, the momentum buffer [d] where there is momentum.
    Wire: 32d bits up, 32d down. `compressor` must be Identity.
    """
    return Algorithm.both_ways(dense(), update)
