"""Compressors C(x): what a vector becomes on the wire, and how many bits that takes. One family a file."""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # also where `__getattr__` looks names up
    from .base import Compressor as Compressor
    from .base import Payload as Payload
    from .base import Shardable as Shardable
    from .base import Unpacked as Unpacked
    from .base import tensors as tensors
    from .bin_means import BinMeans as BinMeans
    from .blocks import Blocks as Blocks
    from .chunk_top_k import ChunkTopK as ChunkTopK
    from .chunk_top_k_bins import ChunkTopKBins as ChunkTopKBins
    from .dct import DctTopK as DctTopK
    from .dither import LinfDither as LinfDither
    from .dither import Nuqsgd as Nuqsgd
    from .four_bits import Dynamic4 as Dynamic4
    from .four_bits import Int4 as Int4
    from .four_bits import Nf4 as Nf4
    from .identity import Identity as Identity
    from .min_max import MinMaxUint8 as MinMaxUint8
    from .natural import Natural as Natural
    from .qsgd import Qsgd as Qsgd
    from .random_k import RandomK as RandomK
    from .rank_k import RankK as RankK
    from .scaled_codes import LogQuantize as LogQuantize
    from .scaled_codes import UniformQuantize as UniformQuantize
    from .scaled_sign import ScaledSign as ScaledSign
    from .sign import Sign as Sign
    from .sign import SignMean as SignMean
    from .top_k import TopK as TopK

_MODULES = {
    alias.name: node.module
    for node in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
    if isinstance(node, ast.ImportFrom) and node.level
    for alias in node.names
}


def __getattr__(name: str) -> Any:
    """Load a module when something of it is asked for: a run loads only what it uses."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
