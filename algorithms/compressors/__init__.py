"""Compressors C(x): what a vector becomes on the wire, and how many bits that takes. One family a file."""

from algorithms.compressors.base import Compressor, Payload, Unpacked
from algorithms.compressors.identity import Identity
from algorithms.compressors.random_k import RandomK
from algorithms.compressors.scaled_sign import ScaledSign
from algorithms.compressors.top_k import TopK

__all__ = ["Compressor", "Identity", "Payload", "RandomK", "ScaledSign", "TopK", "Unpacked"]
