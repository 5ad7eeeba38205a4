"""Groups of neighbours with different numbers of bits, in messages of a given size."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..utils.rounding import floored_share
from ..utils.seeding import MessageKey
from .base import Compressor
from .packing import pack, pack_codes, table, unpack, unpack_codes
from .shard import divisor, nan_unless_finite

_MOST = 8  # bits of a coordinate


class Planes(NamedTuple):
    planes: Tensor  # uint8 [..., P·B/8]: planes of B bits, group after group
    pairs: Tensor  # uint8 [..., ⌈3G/8⌉], w_b/2 of every group
    scale: Tensor  # [..., G], ‖x_b‖∞


@dataclass(frozen=True)
class AdaptiveLevels(Compressor):
    """C(x) = ‖x_b‖∞ times the nearest multiple of 1/(2^{w_b−1} − 1), with w_b bits in group b of B neighbours.

    w_b is 0, 2, 4, 6 or 8. A group with 0 bits becomes zero. The group with the largest ‖x_b‖∞·2^{−w_b} gets the
    next two bits, until G groups have ⌊mG/2⌋ pairs together, m = `mean_bits`. Of equal groups, the one with fewer
    bits comes first. So every message takes 2B⌊mG/2⌋ + 35G bits: each group has a scale, and 3 bits for w_b. The
    largest coordinate crosses exactly, and no error is larger than its coordinate, so π ≥ 1/d.

    Source: reverse water-filling (Cover and Thomas, Elements of Information Theory, 10.3), as a greedy rule. L-GreCo
    (2022, arXiv 2210.17357) chooses levels by layer to make the message small; here its size is fixed.
    """

    mean_bits: float = 3.0  # m, bits a coordinate on average, without scales
    block: int = 64  # B, neighbours that share a scale and a number of bits: a multiple of 8

    def __post_init__(self) -> None:
        if not 0 < self.mean_bits <= _MOST:
            raise ValueError(f"mean_bits={self.mean_bits}: must lie in (0, {_MOST}]")
        if self.block < 8 or self.block % 8:
            raise ValueError(f"block={self.block}: must be a multiple of 8")

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Planes:
        groups = pad(x, (0, -x.shape[-1] % self.block)).unflatten(-1, (-1, self.block))
        scale = nan_unless_finite(groups.abs().amax(-1))
        pairs = self._pairs(scale, x.shape[-1])
        top = _top(pairs, x.dtype)
        shares = groups / divisor(scale).unsqueeze(-1)
        codes = (shares * top).round().add(top).to(torch.uint8)  # 0 for groups without bits
        places = table(tuple(2.0**p for p in range(_MOST)), torch.uint8, x.device)
        flags = (codes.unsqueeze(-2) & places.unsqueeze(-1)).ne(0).view(-1, self.block)
        planes = flags.index_select(0, self._sent_planes(pairs, x.shape[-1]))
        planes = planes.view(*x.shape[:-1], self._count(x.shape[-1]) * self.block)
        return Planes(pack(planes), pack_codes(pairs, 3), scale)

    def decode(self, payload: Planes, d: int) -> Tensor:
        pairs = unpack_codes(payload.pairs, 3, payload.scale.shape[-1])
        sent = unpack(payload.planes, self._count(d) * self.block).view(-1, self.block).to(torch.uint8)
        flags = sent.new_zeros(pairs.numel() * _MOST, self.block).index_copy_(0, self._sent_planes(pairs, d), sent)
        places = table(tuple(2.0**p for p in range(_MOST)), torch.uint8, sent.device)
        top = _top(pairs, payload.scale.dtype)
        levels = (flags.view(*pairs.shape, _MOST, self.block) * places.unsqueeze(-1)).sum(-2).to(top.dtype) - top
        return (payload.scale.unsqueeze(-1) * (levels / top.clamp(min=1))).flatten(-2)[..., :d].contiguous()

    def bits(self, d: int) -> int:
        return self._count(d) * self.block + 35 * -(-d // self.block)

    def pi(self, d: int) -> float:
        return 1 / d

    def check(self, d: int) -> None:
        if not self._count(d):
            raise ValueError(f"mean_bits={self.mean_bits}: no two bits for {-(-d // self.block)} groups; take more")

    def _count(self, d: int) -> int:
        """Return the sum of w_b over all groups."""
        return 2 * (floored_share(self.mean_bits, -(-d // self.block)) // 2)

    def _pairs(self, scale: Tensor, d: int) -> Tensor:
        """Return w_b/2 of every group [..., G], uint8."""
        steps = table(tuple(4.0**-m for m in range(_MOST // 2)), scale.dtype, scale.device)
        # A group's steps decrease, and the sort is stable, so they are taken in order.
        wanted = (scale.unsqueeze(-2) * steps.unsqueeze(-1)).flatten(-2)
        order = wanted.argsort(dim=-1, descending=True, stable=True)[..., : self._count(d) // 2]
        given = torch.zeros_like(wanted, dtype=torch.uint8).scatter_(-1, order, 1)
        return given.unflatten(-1, (_MOST // 2, -1)).sum(-2, dtype=torch.uint8)

    def _sent_planes(self, pairs: Tensor, d: int) -> Tensor:
        """Return the indices of sent planes. Every group [..., G] of all messages has 8 planes of B bits."""
        rows = (torch.arange(_MOST, device=pairs.device) < 2 * pairs.unsqueeze(-1)).view(-1, pairs.shape[-1] * _MOST)
        own = rows.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, : self._count(d)]
        return (own + rows.shape[-1] * torch.arange(len(rows), device=own.device).unsqueeze(-1)).flatten()


def _top(pairs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 2^{w−1} − 1 of every group [..., G, 1], or 0 for a group without bits."""
    return table((0.0, 1.0, 7.0, 31.0, 127.0), dtype, pairs.device)[pairs.long()].unsqueeze(-1)
