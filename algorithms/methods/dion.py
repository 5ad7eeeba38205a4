"""Dion: low-rank orthonormal factors of the momentum are sent instead of gradients."""

from dataclasses import dataclass

from torch import Tensor

from ..utils.layout import Block, Layout
from ..utils.linalg import product
from ..utils.rounding import ceiled_share
from .bases import Adam, Algorithm, Identity, check_range, dense
from .bases.low_rank import LowRank
from .bases.muon import Muon


@dataclass(frozen=True, kw_only=True)
class Along(Muon):
    """Muon's step for matrices that are already orthonormal."""

    def _orthogonalize(self, matrices: Tensor) -> Tensor:
        return matrices


@dataclass(frozen=True, kw_only=True)
class Dion(LowRank):
    fraction: float
    momentum: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "fraction", span="(0, 1]")
        check_range(self, "momentum")

    def rank_of(self, block: Block) -> int:
        return ceiled_share(self.fraction, min(block.rows, block.columns))

    def is_transposed(self, block: Block) -> bool:
        return block.rows < block.columns

    def carry_over(self, memory: Tensor, signal: Tensor) -> Tensor:
        return memory - (1 - self.momentum) * signal

    def next_factor(self, right: Tensor) -> Tensor:
        return right / (right.norm(dim=-2, keepdim=True) + 1e-8)

    def matrix_step(self, block: Block, p: Tensor, right: Tensor) -> Tensor:
        return (block.rows / block.columns) ** 0.5 * product(p, self.next_factor(right).mT)


def dion(
    compressor: Identity,
    layout: Layout = (),
    seed: int = 0,
    fraction: float = 0.25,  # r = ⌈fraction·min(m, n)⌉ of every matrix
    momentum: float = 0.95,  # μ, how much of the used part is kept
    others_lr: float = 1.0,  # AdamW's step size for all else, in units of α
    beta1: float = 0.9,  # β₁ of AdamW
    beta2: float = 0.95,  # β₂ of AdamW
    eps: float = 1e-8,  # ε of AdamW, outside the root
    weight_decay: float = 0.0,  # λ, of x ← x − αλx
) -> Algorithm:
    """Low-rank Muon: the step is the product of PowerSGD's two factors of the momentum M, made orthonormal.

        worker   M_i ← M_i + G_i
        stage 1  up M_i Q, down mean_i M_i Q,  P = orth(mean_i M_i Q)
        stage 2  up M_iᵀ P, down R = mean_i M_iᵀ P
        worker   M_i ← M_i − (1−μ)P Rᵀ
        replica  Q ← the columns of R, each divided by its norm + 10⁻⁸,  X ← X − α(λX + √(m/n)·P Qᵀ)

    for every matrix X m × n. If m < n, M_i and P Qᵀ are transposed, but √(m/n) is of X itself: less than 1. All other
    gradients cross uncompressed in stage 1, and AdamW steps along their mean with `others_lr`·α. A column of Q stays
    if its column of R is zero.
    State: M_i [of matrices] on every worker; P, Q, P Rᵀ and AdamW's moments on every replica. M_i start at zero, Q
    standard normal from the run's seed, equal everywhere.
    Wire: 32(Σ r(m + n) + all else) bits each way.
    Source: Ahn, Xu, Abreu et al., Dion: Distributed Orthonormalized Updates, 2025 (arXiv 2504.05295), and its
    authors' reference (microsoft/dion). It equals one worker's Dion with the mean gradient, for any data.
    Differences: `fraction` is 1 there. Filters are (out, all else), and rejected there. orth uses Householder's QR,
    there Cholesky's on a sketch.
    """
    compressed = tuple(block for block in layout if block.role == "matrix")
    others = Adam(beta1=beta1, beta2=beta2, nu=eps, form="torch")
    update = Along(layout=layout, momentum=0.0, others=others, others_lr=others_lr, weight_decay=weight_decay)
    wire = dense()
    return Dion(
        wire, wire, update, layout=layout, compressed=compressed, seed=seed, fraction=fraction, momentum=momentum
    )
