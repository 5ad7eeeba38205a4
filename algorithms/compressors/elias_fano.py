"""Ascending indices in few bits."""

import torch
from torch import Tensor

from .flags import indices_of
from .packing import pack, pack_codes, unpack, unpack_codes


def size(k: int, d: int) -> int:
    """Return the bits of any k of d indices: k(l + 1) + ⌊(d−1)/2^l⌋ with l = max(0, ⌊log₂(d/k)⌋)."""
    return k * _low(k, d) + _upper(k, d)


def pack_ascending(indices: Tensor, d: int) -> Tensor:
    """Pack ascending indices [..., k] below d to uint8: a bitmap of their high parts, and the l low bits of each.

    Bit ⌊i_j/2^l⌋ + j of the bitmap is set for the j-th index i_j, j from 0. The last byte is padded with zero bits.
    Source: Elias, Efficient Storage and Retrieval by Content and Address of Static Files, 1974.
    """
    k = indices.shape[-1]
    low = _low(k, d)
    ones = (indices >> low) + torch.arange(k, device=indices.device)
    flags = indices.new_zeros(*indices.shape[:-1], _upper(k, d), dtype=torch.bool).scatter_(-1, ones.long(), True)
    codes = [unpack(pack_codes(indices & ((1 << low) - 1), low), k * low)] if low else []
    return pack(torch.cat([flags, *codes], -1))


def unpack_ascending(packed: Tensor, k: int, d: int) -> Tensor:
    """Unpack the indices int64 [..., k] that `pack_ascending` packed."""
    low, upper = _low(k, d), _upper(k, d)
    bitmap, codes = unpack(packed, size(k, d)).tensor_split([upper], -1)
    high = (indices_of(bitmap, k) - torch.arange(k, device=packed.device)) << low
    return high + unpack_codes(pack(codes), low, k) if low else high


def _low(k: int, d: int) -> int:
    return max(0, (d // k).bit_length() - 1)


def _upper(k: int, d: int) -> int:
    return k + ((d - 1) >> _low(k, d))
