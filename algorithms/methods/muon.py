"""Muon, uncompressed: orthogonalized momentum."""

from ..utils.layout import Layout
from .bases import Adam, Algorithm, Direct, Floats
from .bases.muon import Muon, Scale


def muon(
    compressor: Floats,
    layout: Layout = (),
    momentum: float = 0.95,  # μ, how much of B is kept each round
    nesterov: bool = True,  # false: NS(B) without Nesterov's momentum
    scale: Scale = "original",  # s: √max(1, m/n); spectral: √(m/n); match_rms_adamw: 0.2√max(m, n); none: 1
    others_lr: float = 0.015,  # AdamW's step size for all else, in units of α
    beta1: float = 0.9,  # β₁ of AdamW
    beta2: float = 0.95,  # β₂ of AdamW
    eps: float = 1e-10,  # ε of AdamW, outside the root
    weight_decay: float = 0.0,  # λ, of x ← x − αλx
) -> Algorithm:
    """The plain baseline of matrix methods: gradients up, their mean down, steps of nearly orthogonal matrices.

        all      ḡ = mean_i g_i
        replica  of every matrix m × n:  B ← μB + (1−μ)ḡ,  U = (1−μ)ḡ + μB  (B without `nesterov`)
                 X ← X − α(λX + s·NS(U)),  NS(U) near UVᵀ of the singular value decomposition
                 of all else: AdamW with `others_lr`·α

    Roles: the task's layout names the matrices; embeddings, heads and vectors are all else.
    State: replica, B [of matrices], m and v [of all else].
    Wire: 32d bits up, 32d down. With the casts bf16, fp16 and fp8 one message of C each way, for g_i and for ḡ.
    Source: Muon's original code (KellerJordan/Muon, 2024). Its readme has α = 0.02 and 3·10⁻⁴ for AdamW, so
    `others_lr` 0.015. `match_rms_adamw` with `others_lr` 1 is Moonlight's (Liu et al. 2025, arXiv 2502.16982),
    `spectral` Dion's and MuLoCo's.
    Differences: NS is computed in the run's dtype, there in bfloat16. A filter's s is for (out, all else), there for
    its last two axes.
    """
    others = Adam(beta1=beta1, beta2=beta2, nu=eps, form="torch")
    update = Muon(
        layout=layout, momentum=momentum, nesterov=nesterov, scale=scale, others=others, others_lr=others_lr,
        weight_decay=weight_decay,
    )  # fmt: skip
    return Algorithm.from_channel(Direct(compressor), update)
