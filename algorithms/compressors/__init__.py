"""Compressors C(x), with their messages and bit counts. One family per file."""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # also where `__getattr__` looks names up
    from .adaptive_levels import AdaptiveLevels
    from .base import Compressor, Floats, Identity, Payload, Shardable, Unpacked, tensors
    from .bin_means import BinMeans
    from .blocks import Blocks
    from .chain import Chain
    from .chunk_top_k import ChunkTopK, ChunkTopKBins
    from .dct import DctTopK
    from .dither import LinfDither, Nuqsgd, Qsgd
    from .floats import Bf16, Fp8, Fp16
    from .four_bits import Dynamic4, Int4, Nf4
    from .integers import IntegerMean, Integers
    from .min_max import MinMaxUint8
    from .natural import Natural
    from .random_k import RandomK
    from .rank_k import RankK
    from .scaled_codes import LogQuantize, UniformQuantize
    from .sign import ScaledSign, Sign, SignMean
    from .top_k import TopK

_MODULES = {
    alias.name: node.module
    for node in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
    if isinstance(node, ast.ImportFrom) and node.level
    for alias in node.names
}


def __getattr__(name: str) -> Any:
    """Load a module on first use, so that a run imports only the modules that it needs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
