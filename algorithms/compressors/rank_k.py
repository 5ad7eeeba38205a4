"""Matrices of low rank."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.layout import Layout, Split, check_layout, matrices_of
from ..utils.linalg import cut, join, orthonormalize, product
from ..utils.seeding import MessageKey
from .base import Compressor


class Factors(NamedTuple):
    p: Tensor  # orthonormal columns [..., Σ m·r], in the dtype of x
    right: Tensor  # Mᵀ P [..., Σ n·r]
    others: Tensor  # all other coordinates, uncompressed


@dataclass(frozen=True)
class RankK(Compressor):
    """C(M) = P(MᵀP)ᵀ with P = orth(MQ), Q standard normal, for every matrix m × n: 32r(m + n) bits.

    Tensors of one axis are sent uncompressed, 32 bits a coordinate, and r = min(`rank`, m, n). A filter is (out, all
    else). Q is drawn for every message; decoding does not need it. C is a projection, so ‖C(x) − x‖ ≤ ‖x‖ for every
    draw, and the mean is smaller. It is contractive, but no simple formula gives π.

    Source: one power iteration of PowerSGD (Vogels, Karimireddy and Jaggi 2019), for every message alone. In PowerSGD
    the workers share P, which takes two exchanges a round; see the method `powersgd`.
    """

    rank: int = 2  # r
    layout: Layout = ()

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"rank={self.rank}: must be at least 1")

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Factors:
        if key is None:
            raise ValueError("rank_k draws from a key: pass one that names seed, direction, round and workers")
        matrices, others = self._split.separate(x)
        drawn = self._draw(key).to(x).expand(*x.shape[:-1], -1)
        blocks = self._split.chosen
        starts = zip(
            cut(matrices, [(b.rows, b.columns) for b in blocks]), cut(drawn, self._sides(rows=False)), strict=True
        )
        pairs = [(m, orthonormalize(product(m, q))) for m, q in starts]
        none = others[..., :0]
        return Factors(join([p for _, p in pairs], none), join([product(m.mT, p) for m, p in pairs], none), others)

    def decode(self, payload: Factors, d: int) -> Tensor:
        p, right = cut(payload.p, self._sides(rows=True)), cut(payload.right, self._sides(rows=False))
        matrices = [product(one, other.mT) for one, other in zip(p, right, strict=True)]
        return self._split.join(join(matrices, payload.others[..., :0]), payload.others)

    def bits(self, d: int) -> int:
        sent = sum(rows * columns for side in (True, False) for rows, columns in self._sides(rows=side))
        return 32 * (sent + d - sum(block.size for block in self._split.chosen))

    def check(self, d: int) -> None:
        check_layout(self.layout, d)

    @property
    def _split(self) -> Split:
        return Split(self.layout, matrices_of(self.layout))

    def _sides(self, rows: bool) -> list[tuple[int, int]]:
        """Return the shapes of P, or of MᵀP."""
        blocks = self._split.chosen
        return [(b.rows if rows else b.columns, min(self.rank, b.rows, b.columns)) for b in blocks]

    def _draw(self, key: MessageKey) -> Tensor:
        """Draw Q of all matrices, concatenated: [W, Σ n·r], or [Σ n·r] for the server's message."""
        count = sum(rows * columns for rows, columns in self._sides(rows=False))
        return key.draw(lambda it: torch.randn(count, dtype=torch.float64, generator=it, device="cpu"))
