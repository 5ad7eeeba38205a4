"""Compressors C(x): what a vector becomes on the wire, and how many bits that takes. One family a file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from algorithms.compressors.base import Compressor, Divisible, Payload, Unpacked, tensors
    from algorithms.compressors.bin_means import BinMeans
    from algorithms.compressors.blocks import Blocks
    from algorithms.compressors.chunk_top_k import ChunkTopK
    from algorithms.compressors.chunk_top_k_bins import ChunkTopKBins
    from algorithms.compressors.dct import DctTopK
    from algorithms.compressors.dither import LinfDither, Nuqsgd
    from algorithms.compressors.four_bits import Dynamic4, Nf4
    from algorithms.compressors.identity import Identity
    from algorithms.compressors.int4 import Int4
    from algorithms.compressors.log_quantize import LogQuantize
    from algorithms.compressors.min_max import MinMaxUint8
    from algorithms.compressors.natural import Natural
    from algorithms.compressors.qsgd import Qsgd
    from algorithms.compressors.random_k import RandomK
    from algorithms.compressors.rank_k import RankK
    from algorithms.compressors.scaled_sign import ScaledSign
    from algorithms.compressors.sign import Sign, SignMean
    from algorithms.compressors.top_k import TopK
    from algorithms.compressors.uniform_quantize import UniformQuantize

_MODULES = {
    "Compressor": "base",
    "Divisible": "base",
    "Payload": "base",
    "Unpacked": "base",
    "tensors": "base",
    "BinMeans": "bin_means",
    "Blocks": "blocks",
    "ChunkTopK": "chunk_top_k",
    "ChunkTopKBins": "chunk_top_k_bins",
    "DctTopK": "dct",
    "LinfDither": "dither",
    "Nuqsgd": "dither",
    "Dynamic4": "four_bits",
    "Nf4": "four_bits",
    "Identity": "identity",
    "Int4": "int4",
    "LogQuantize": "log_quantize",
    "MinMaxUint8": "min_max",
    "Natural": "natural",
    "Qsgd": "qsgd",
    "RandomK": "random_k",
    "RankK": "rank_k",
    "ScaledSign": "scaled_sign",
    "Sign": "sign",
    "SignMean": "sign",
    "TopK": "top_k",
    "UniformQuantize": "uniform_quantize",
}

__all__ = [
    "BinMeans",
    "Blocks",
    "ChunkTopK",
    "ChunkTopKBins",
    "Compressor",
    "DctTopK",
    "Divisible",
    "Dynamic4",
    "Identity",
    "Int4",
    "LinfDither",
    "LogQuantize",
    "MinMaxUint8",
    "Natural",
    "Nf4",
    "Nuqsgd",
    "Payload",
    "Qsgd",
    "RandomK",
    "RankK",
    "ScaledSign",
    "Sign",
    "SignMean",
    "TopK",
    "UniformQuantize",
    "Unpacked",
    "tensors",
]


def __getattr__(name: str) -> Any:
    """A module is loaded when something of it is asked for, so that a run loads those alone that it uses."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
