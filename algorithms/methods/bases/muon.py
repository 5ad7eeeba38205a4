"""Muon: steps along nearly orthogonal matrices."""

from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ...utils.layout import Layout, Split, check_layout
from ...utils.linalg import cut, join, product
from . import Adam, AdamMoments, Lr, Update, check_range

_A, _B, _C = 3.4445, -4.7750, 2.0315
_STEPS = 5


def newton_schulz(x: Tensor) -> Tensor:
    """Return nearly UVᵀ for matrices X = USVᵀ [..., m, n], in the dtype of x: five steps of an odd polynomial.

        Y = X/(‖X‖_F + 10⁻⁷), transposed where m > n;  A = YYᵀ,  Y ← aY + (bA + cA²)Y

    Singular values of Y in [0.01, 1] become [0.68, 1.14], and 0 stays. Source: KellerJordan/Muon, which computes in
    bfloat16.
    """
    is_tall = x.shape[-2] > x.shape[-1]
    y = x.mT if is_tall else x
    y = y / (torch.linalg.matrix_norm(y, keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        gram = product(y, y.mT)
        y = _A * y + product(_B * gram + _C * product(gram, gram), y)
    return y.mT if is_tall else y


class MuonMoments(NamedTuple):
    b: Tensor  # of matrices [*T, c]
    m: Tensor  # of all else [*T, d − c]
    v: Tensor


Scale = Literal["original", "spectral", "match_rms_adamw", "none"]


@dataclass(frozen=True, kw_only=True)
class Muon(Update):
    """B ← μB + (1−μ)u, X ← X − α·s(m, n)·NS(B) for the matrices of a layout, AdamW with ρα for all else.

    `nesterov` takes NS((1−μ)u + μB) of the new B. s(m, n) is √max(1, m/n) (`original`), √(m/n) (`spectral`) or
    0.2·√max(m, n) (`match_rms_adamw`), or 1 (`none`). Weight decay is x ← x − αλx, with ρα for AdamW.
    """

    layout: Layout
    momentum: float = 0.95  # μ
    nesterov: bool = True
    scale: Scale = "original"
    others: Adam  # for all else
    others_lr: float  # ρ

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "momentum")
        if not 0 <= self.others_lr < inf:
            raise ValueError(f"others_lr={self.others_lr}: must be finite and not negative")

    def start(self, x: Tensor) -> MuonMoments:
        matrices, others = self._split.separate(torch.zeros_like(x))
        return MuonMoments(matrices if self.momentum else matrices[..., :0], *self.others.start(others))

    def direction(self, u: Tensor, moments: MuonMoments, t: int) -> tuple[Tensor, MuonMoments]:
        matrices, others = self._split.separate(u)
        ahead, b = matrices, moments.b
        if b.shape[-1]:  # with momentum from the start
            b = self.momentum * b + (1 - self.momentum) * matrices
            ahead = (1 - self.momentum) * matrices + self.momentum * b if self.nesterov else b
        rest, (m, v) = self.others.direction(others, AdamMoments(moments.m, moments.v), t)
        return self._split.join(self._orthogonalize(ahead), self.others_lr * rest), MuonMoments(b, m, v)

    def step(self, x: Tensor, u: Tensor, moments: MuonMoments, lr: Lr, t: int) -> tuple[Tensor, MuonMoments]:
        direction, moments = self.direction(u, moments, t)
        if self.weight_decay:
            matrices, others = self._split.separate(x)
            direction = direction + self.weight_decay * self._split.join(matrices, self.others_lr * others)
        return x - lr * direction, moments

    def check(self, d: int) -> None:
        check_layout(self.layout, d)

    def hyperparameters(self) -> dict[str, Any]:
        # Without momentum at the start there is no B, so nothing can raise it later.
        return super().hyperparameters() | ({"momentum": self.momentum} if self.momentum else {})

    @property
    def _split(self) -> Split:
        return Split(self.layout, tuple(block for block in self.layout if block.role == "matrix"))

    def _orthogonalize(self, matrices: Tensor) -> Tensor:
        """Return s(m, n)·NS(X) of all matrices, concatenated."""
        shapes = [(block.rows, block.columns) for block in self._split.chosen]
        parts = zip(shapes, cut(matrices, shapes), strict=True)
        return join([factor(self.scale, *shape) * newton_schulz(part) for shape, part in parts], matrices[..., :0])


def factor(scale: Scale, m: int, n: int) -> float:
    if scale == "original":
        return max(1, m / n) ** 0.5
    if scale == "spectral":
        return (m / n) ** 0.5
    return 0.2 * max(m, n) ** 0.5 if scale == "match_rms_adamw" else 1.0
