"""PowerSGD: gradients of rank r by one power iteration, with error feedback."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ..utils.layout import Block, Layout, matrices_of
from ..utils.linalg import product
from .bases import SGD, Algorithm, Identity, Moments, check_words, dense
from .bases.low_rank import LowRank


@dataclass(frozen=True, kw_only=True)
class MomentumBeside(SGD):
    """m ← μm + u, x ← x − α(u + m): the step adds the gradient to the momentum that contains it."""

    def direction(self, u: Tensor, moments: Moments, t: int) -> tuple[Tensor, Moments]:
        m, moments = super().direction(u, moments, t)
        return u + m, moments


@dataclass(frozen=True, kw_only=True)
class PowerSGD(LowRank):
    rank: int
    residual: Literal["global", "local"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise ValueError(f"rank={self.rank}: must be at least 1")

    def rank_of(self, block: Block) -> int:
        return min(self.rank, block.rows, block.columns)

    def update_memory(self, memory: Tensor, p: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
        if self.residual == "global":
            return memory
        own = self.flatten([product(one, other.mT) for one, other in zip(p, right, strict=True)], memory[..., :0])
        return memory - own

    def carry_over(self, memory: Tensor, signal: Tensor) -> Tensor:
        return memory - signal if self.residual == "global" else memory


def powersgd(
    compressor: Identity,
    layout: Layout = (),
    seed: int = 0,
    rank: int = 2,  # r, of every matrix, or min(m, n) where that is less
    momentum: float = 0.9,  # μ, how much of m is kept each round
    roles: Literal["all", "matrix"] = "all",  # which tensors of two axes or more; matrix: no embedding and no head
    residual: Literal["global", "local"] = "global",  # E_i = M_i − D; local: M_i − P(M_iᵀ P)ᵀ, minus what it sent
    weight_decay: float = 0.0,  # λ, added to D
) -> Algorithm:
    """Approximate the mean of all workers' gradients and errors by D of rank r, with one power iteration.

        worker   M_i = G_i + E_i
        stage 1  up M_i Q, down mean_i M_i Q,  P = orth(mean_i M_i Q)
        stage 2  up M_iᵀ P, down Q ← mean_i M_iᵀ P,  D = P Qᵀ
        worker   E_i ← M_i − D
        replica  m ← μm + D,  x ← x − α(D + m)

    for every tensor m × n; a filter is (out, all else). Other tensors cross uncompressed in stage 1, and D is their
    mean. If a column of Q becomes zero, the old one stays; otherwise P would stay zero.
    State: M_i [of matrices] on every worker (`residual: local`: E_i); P and Q, D and m on every replica. E_i start at
    zero, Q standard normal from the run's seed, equal everywhere.
    Wire: 32(Σ r(m + n) + other tensors) bits each way.
    Source: Vogels, Karimireddy and Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed
    Optimization, 2019 (arXiv 1905.13727), and its authors' code, which steps by D + m and also compresses embeddings
    and heads. If workers differ, E_i grows each round by G_i − mean_i G_i. With `residual: local` it does not, and x
    is the same.
    Differences: orth uses Householder's QR, there Gram-Schmidt with 10⁻⁸ added, after which a tensor with a zero mean
    never moves again. torch's hook begins after 1,000 dense rounds.
    """
    check_words(powersgd, locals())
    compressed = tuple(block for block in matrices_of(layout) if roles in ("all", block.role))
    update = MomentumBeside(momentum=momentum, weight_decay=weight_decay)
    return PowerSGD(
        dense(), dense(), update, layout=layout, compressed=compressed, rank=rank, seed=seed, residual=residual
    )
