"""Compressors C(x): what a vector becomes on the wire, and how many bits that takes. One family a file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Compressor, Payload, Shardable, Unpacked, tensors
    from .bin_means import BinMeans
    from .blocks import Blocks
    from .chunk_top_k import ChunkTopK
    from .chunk_top_k_bins import ChunkTopKBins
    from .dct import DctTopK
    from .dither import LinfDither, Nuqsgd
    from .four_bits import Dynamic4, Nf4
    from .identity import Identity
    from .int4 import Int4
    from .log_quantize import LogQuantize
    from .min_max import MinMaxUint8
    from .natural import Natural
    from .qsgd import Qsgd
    from .random_k import RandomK
    from .rank_k import RankK
    from .scaled_sign import ScaledSign
    from .sign import Sign, SignMean
    from .top_k import TopK
    from .uniform_quantize import UniformQuantize

_MODULES = {
    "Compressor": "base",
    "Shardable": "base",
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
    "Shardable",
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
