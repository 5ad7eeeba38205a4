"""Random numbers that depend on what they are for, and on nothing else."""

import zlib

import numpy as np


def generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """The generator of (seed, purpose, index): the same whatever else is drawn, independent of the others.

    purpose: what is drawn, in words; index: which worker or class it is for.
    Raises ValueError where the seed is negative.
    """
    key = (zlib.crc32(purpose.encode()), index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
