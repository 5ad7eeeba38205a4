"""Eight booleans to a byte."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

_PLACES = (128, 64, 32, 16, 8, 4, 2, 1)  # the first coordinate is a byte's highest bit, as in numpy.packbits


def pack(flags: Tensor) -> Tensor:
    """Booleans [..., d] to uint8 [..., ⌈d/8⌉], padded with zero bits.

    On the CPU numpy's packbits works on the tensor's own memory, many times faster than the torch expression
    (`benchmarks/packing.py` measures both).
    """
    if flags.device.type == "cpu":
        return torch.from_numpy(np.packbits(flags.numpy(), axis=-1))
    return pack_by_torch(flags)


def unpack(packed: Tensor, d: int) -> Tensor:
    """The booleans [..., d] that `pack` was given, from uint8 [..., ⌈d/8⌉]."""
    if packed.device.type == "cpu":
        return torch.from_numpy(np.unpackbits(packed.numpy(), axis=-1, count=d)).view(torch.bool)
    return unpack_by_torch(packed, d)


def pack_by_torch(flags: Tensor) -> Tensor:
    """`pack` on any device."""
    places = torch.tensor(_PLACES, dtype=torch.uint8, device=flags.device)
    octets = pad(flags, (0, -flags.shape[-1] % 8)).unflatten(-1, (-1, 8))
    return (octets * places).sum(-1, dtype=torch.uint8)


def unpack_by_torch(packed: Tensor, d: int) -> Tensor:
    """`unpack` on any device."""
    places = torch.tensor(_PLACES, dtype=torch.uint8, device=packed.device)
    return (packed.unsqueeze(-1) & places).ne(0).flatten(-2)[..., :d]
