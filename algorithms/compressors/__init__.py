"""Compressors C(x): what a vector becomes on the wire, and how many bits that takes. One family a file."""

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
