"""Signs with one scale per block."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from algorithms.compressors import Compressor
from algorithms.compressors.packing import pack, unpack
from algorithms.utils.seeding import MessageKey


class BlockSigns(NamedTuple):
    """The payload: tensors, each with the leading axes of x."""

    bits: Tensor  # uint8 [..., ⌈d/8⌉], 1 where x ≥ 0
    scales: Tensor  # [..., ⌈d/block⌉], in the dtype of x


@dataclass(frozen=True)
class BlockSign(Compressor):
    """C(x)_j = ‖x_b‖₁/|b| · sgn±(x_j), with j in the block b of `block` neighbours: d + 32⌈d/block⌉ bits.

    Every block is a scaled sign, so ‖C(x) − x‖² ≤ (1 − 1/block)‖x‖²: π does not shrink as d grows, for 32/block more
    bits a coordinate. The last block may be shorter.
    Source: Zheng, Huang and Kwok, Communication-Efficient Distributed Blockwise Momentum SGD with Error-Feedback,
    2019.
    """

    block: int = 64

    def __post_init__(self) -> None:
        if self.block < 1:
            raise ValueError(f"block={self.block}: a block has at least one coordinate")

    def encode(self, x: Tensor, key: MessageKey | None = None) -> BlockSigns:
        d = x.shape[-1]
        blocks = pad(x.abs(), (0, -d % self.block)).unflatten(-1, (-1, self.block))
        lengths = torch.full((blocks.shape[-2],), self.block)
        lengths[-1] -= -d % self.block
        return BlockSigns(pack(x >= 0), blocks.sum(-1) / lengths.to(x))

    def decode(self, payload: BlockSigns, d: int) -> Tensor:
        scales = payload.scales.repeat_interleave(self.block, -1)[..., :d]
        return torch.where(unpack(payload.bits, d), scales, -scales)

    def bits(self, d: int) -> int:
        return d + 32 * -(-d // self.block)

    def pi(self, d: int) -> float:
        return 1 / min(self.block, d)
