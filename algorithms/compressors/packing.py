"""Pack booleans, eight to a byte, and codes of a few bits."""

from functools import cache, reduce
from operator import or_

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from .shard import Shard

_PLACES = (128, 64, 32, 16, 8, 4, 2, 1)  # the first coordinate is a byte's highest bit, as in numpy.packbits
CHUNK = 1 << 18  # codes packed at once on a CPU: they fit the cache, and a multiple of 8 ends on a whole byte

_WORDS = {2: torch.int32, 4: torch.int16}
"""The integer type for the codes of one packed byte, at one byte per code."""


@cache
def table(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a cached lookup table [len(values)]: copying a new one would wait for the GPU."""
    return torch.tensor(values, dtype=dtype, device=device)


def pack(flags: Tensor) -> Tensor:
    """Pack booleans [..., d] to uint8 [..., ⌈d/8⌉], padded with zero bits."""
    if flags.device.type == "cpu":
        return torch.from_numpy(np.packbits(flags.numpy(), axis=-1))
    return pack_by_torch(flags)


def pack_signs(x: Tensor) -> Tensor:
    """Return `pack(x >= 0)` for x [..., d]. On a CPU numpy compares several times as fast as torch."""
    by_numpy = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return pack(torch.from_numpy(np.greater_equal(x.numpy(), 0)) if by_numpy else x >= 0)


def unpack(packed: Tensor, d: int) -> Tensor:
    """Unpack the booleans [..., d] that `pack` packed, from uint8 [..., ⌈d/8⌉]."""
    if packed.device.type == "cpu":
        return torch.from_numpy(np.unpackbits(packed.numpy(), axis=-1, count=d)).view(torch.bool)
    return unpack_by_torch(packed, d)


def unpack_signs(packed: Tensor, d: int, magnitude: Tensor) -> Tensor:
    """Return m for packed true and −m for false, [..., d], for magnitudes m [..., 1] and in their dtype.

    A table decodes a byte at a time, in a third of the time of unpacking and multiplying.
    """
    lead, octets = packed.shape[:-1], magnitude.unsqueeze(-1) * _signs(magnitude.dtype, magnitude.device)
    rows = torch.arange(lead.numel(), dtype=torch.int32, device=packed.device).view(*lead, 1)
    values = octets.view(-1, 8).index_select(0, (packed + 256 * rows).flatten())
    return values.view(*lead, 8 * packed.shape[-1])[..., :d].contiguous()


def pack_by_torch(flags: Tensor) -> Tensor:
    """`pack` on any device."""
    places = table(_PLACES, torch.uint8, flags.device)
    octets = pad(flags, (0, -flags.shape[-1] % 8)).unflatten(-1, (-1, 8))
    return (octets * places).sum(-1, dtype=torch.uint8)


def unpack_by_torch(packed: Tensor, d: int) -> Tensor:
    """`unpack` on any device."""
    places = table(_PLACES, torch.uint8, packed.device)
    return (packed.unsqueeze(-1) & places).ne(0).flatten(-2)[..., :d]


def pack_codes(codes: Tensor, bits: int) -> Tensor:
    """Pack unsigned codes [..., d] below 2^bits, of any dtype, to uint8 [..., ⌈bits·d/8⌉].

    Every code's highest bit comes first, and the last byte is padded with zero bits. 1 ≤ bits ≤ 31.
    """
    if bits in (1, 8):
        return pack(codes.bool()) if bits == 1 else codes.to(torch.uint8)
    chunks = codes.split(_chunk(codes.device, codes.shape[-1]), -1)
    return torch.cat([_pack_chunk(chunk, bits) for chunk in chunks], -1)


def unpack_codes(packed: Tensor, bits: int, d: int) -> Tensor:
    """Unpack the codes [..., d] that `pack_codes` packed, to uint8, or to int32 if bits > 8."""
    if bits in (1, 8):
        return unpack(packed, d).view(torch.uint8) if bits == 1 else packed
    chunk = _chunk(packed.device, -(-d // 8) * 8)
    chunks = packed.split(chunk // 8 * bits, -1)
    return torch.cat([_unpack_chunk(c, bits, min(chunk, d - n * chunk)) for n, c in enumerate(chunks)], -1)


def unpack_values(packed: Tensor, values: Tensor, d: int) -> Tensor:
    """Return values[code] for packed codes [..., d] of 4 bits, two at a time. values: [16]."""
    pairs = torch.complex(values.repeat_interleave(16), values.repeat(16))
    found = pairs.index_select(0, packed.flatten().to(torch.int32))
    return torch.view_as_real(found).view(*packed.shape[:-1], -1)[..., :d].contiguous()


def packed_shard(packed: Tensor, bits: int, shard: Shard) -> Tensor:
    """Cut the packed codes of a shard, which begins on a whole byte, out of the whole vector's."""
    return packed[..., bits * shard.begin // 8 : -(-bits * shard.end // 8)]


@cache
def _signs(dtype: torch.dtype, device: torch.device) -> Tensor:
    signs = tuple(1.0 if byte & place else -1.0 for byte in range(256) for place in _PLACES)
    return table(signs, dtype, device).view(256, 8)


def _chunk(device: torch.device, d: int) -> int:
    """Return how many of d codes to pack at once: all on a GPU, which is faster with few large kernels."""
    return CHUNK if device.type == "cpu" else max(d, 1)


def _shifts(bits: int) -> range:
    """Return the right shifts that move codes from one byte each to their positions in one packed byte."""
    return range(bits - 8, 8 // bits * (8 + bits) + bits - 8, 8 + bits)


def _pack_chunk(codes: Tensor, bits: int) -> Tensor:
    if 8 % bits == 0:  # a byte has whole codes
        # On a CPU torch converts floats to int8 several times as fast as to uint8, but codes of 8 bits do not fit.
        codes = codes.to(torch.uint8 if bits == 8 else torch.int8)
        words = pad(codes, (0, -codes.shape[-1] % (8 // bits))).contiguous().view(_WORDS[bits])
        return reduce(or_, (words >> shift if shift > 0 else words << -shift for shift in _shifts(bits))).byte()
    codes = codes.to(torch.int32)
    flags = codes.new_empty(*codes.shape, bits, dtype=torch.bool)
    for place in range(bits):
        flags[..., place] = codes & (1 << (bits - 1 - place))
    return pack(flags.flatten(-2))


def _unpack_chunk(packed: Tensor, bits: int, d: int) -> Tensor:
    if 8 % bits == 0:
        words, most = packed.to(_WORDS[bits]), (1 << bits) - 1
        shifted = (words << shift if shift > 0 else words >> -shift for shift in _shifts(bits))
        codes = reduce(or_, (some & (most << 8 * place) for place, some in enumerate(shifted)))
        return codes.view(torch.uint8)[..., :d]
    flags = unpack(packed, d * bits).unflatten(-1, (d, bits))
    codes = packed.new_zeros(*packed.shape[:-1], d, dtype=torch.uint8 if bits < 8 else torch.int32)
    for place in range(bits):
        codes += codes  # shifts by one bit
        codes += flags[..., place]
    return codes
