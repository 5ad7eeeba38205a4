"""MuLoCo: many local steps of Muon, then one Nesterov step on the workers' mean displacement, in few bits."""

from ..utils.layout import Layout
from .bases import Adam, Algorithm, Compressor
from .bases.muon import Muon, Scale
from .diloco import diloco


def muloco(
    compressor: Compressor,
    layout: Layout = (),
    period: int = 30,  # H, rounds from one exchange to the next
    outer_lr: float = 0.9,  # η of the outer step
    outer_momentum: float = 0.8,  # μ of the outer step
    decay: float = 0.95,  # β, how much of the compression error is kept
    momentum: float = 0.9,  # Muon's, of B
    nesterov: bool = False,  # true: NS of Nesterov's momentum
    scale: Scale = "spectral",  # s: √(m/n); original: √max(1, m/n); match_rms_adamw: 0.2√max(m, n); none: 1
    others_lr: float = 1.0,  # AdamW's step size for all else, in units of α
    beta1: float = 0.9,  # β₁ of AdamW
    beta2: float = 0.99,  # β₂ of AdamW
    eps: float = 1e-8,  # ε of AdamW, outside the root
    weight_decay: float = 0.0,  # λ, of x ← x − αλx
    uplink_only: bool = True,  # false: the mean is compressed too, with an error on the server
    fragments: int = 1,  # P, parts of the model, exchanged in turn; must divide H
    delay: int = 0,  # τ, rounds from an exchange until workers take its result
    mixing: float = 1.0,  # a, the share of x in the new x_i, in (0, 1]
) -> Algorithm:
    """DiLoCo with Muon inside. Its differences can be compressed to two bits.

        worker   x_i by `muon`'s step with g_i, the gradient at x_i;  in rounds that H divides:
                 c_i = C(Δ_i + βe_i), Δ_i = x − x_i,  e_i ← Δ_i + βe_i − c_i
        server   Δ̄ = mean_i c_i, dense;  without `uplink_only` y = Δ̄ + βe,  Δ̄ ← C(y),  e ← y − Δ̄
        replica  b ← μb + Δ̄,  x ← x − η(Δ̄ + μb),  x_i ← x

    State: x_i, B [of matrices], m and v [of all else] and e_i [d] on every worker; x and b [d]; e [d] on
    the server without `uplink_only`.
    Wire: in rounds that H divides one message of C up (2d + 160 bits with bin_means, 32d with `identity`, which needs
    no e_i) and 32d bits or one message of C down; 0 in the others.
    Fragments: with `fragments` one of P parts of the model is exchanged every H/P rounds, and τ rounds later workers
    set x_i ← (1 − a)x_i + ax on it (Streaming DiLoCo, `bases.streaming`).
    Source: Thérien et al., MuLoCo: Muon is a Practical Inner Optimizer for DiLoCo, 2025 (arXiv 2505.23725). Defaults
    are its code's example of two workers, with α = 0.044, λ = 0.00125, a warm-up and a cosine.
    Differences: There Newton-Schulz is Dion's, η multiplies twice, every tensor has its bins, and the mean is
    compressed without a memory.
    """
    others = Adam(beta1=beta1, beta2=beta2, nu=eps, form="torch")
    inner = Muon(
        layout=layout, momentum=momentum, nesterov=nesterov, scale=scale, others=others, others_lr=others_lr,
        weight_decay=weight_decay,
    )  # fmt: skip
    return diloco(
        compressor, inner, period, outer_lr, outer_momentum, decay, uplink_only, fragments, delay, mixing, layout
    )
