"""DiLoCo: many local steps of AdamW, then one Nesterov step on the workers' mean displacement."""

from ..utils.layout import Layout
from .bases import Algorithm, Channel, Compressor, ErrorFeedback, Identity, Update, dense
from .bases.local_steps import LocalSteps, Nesterov
from .bases.streaming import streaming


def diloco(
    compressor: Compressor,
    update: Update,
    period: int = 100,  # H, rounds from one exchange to the next
    outer_lr: float = 0.7,  # η of the outer step
    outer_momentum: float = 0.9,  # μ of the outer step
    decay: float = 0.95,  # β, how much of the compression error is kept
    uplink_only: bool = True,  # false: the mean is compressed too, with an error on the server
    fragments: int = 1,  # P, parts of the model, exchanged in turn; must divide H
    delay: int = 0,  # τ, rounds from an exchange until workers take its result
    mixing: float = 1.0,  # a, the share of x in the new x_i, in (0, 1]
    layout: Layout = (),
) -> Algorithm:
    """Workers train alone for H rounds. Then the model makes a Nesterov step on the mean of their differences.

        worker   x_i ← x_i − α·step(g_i), with the gradient g_i at x_i;  in rounds that H divides:
                 Δ_i = x − x_i,  with a compressor c_i = C(Δ_i + βe_i),  e_i ← Δ_i + βe_i − c_i
        server   Δ̄ = mean_i Δ_i (c_i), dense;  without `uplink_only` y = Δ̄ + βe,  Δ̄ ← C(y),  e ← y − Δ̄
        replica  b ← μb + Δ̄,  x ← x − η(Δ̄ + μb),  x_i ← x

    State: x_i, the inner moments and, with a compressor, e_i [d] on every worker; x and b [d]; e [d] on the server
    without `uplink_only`.
    Wire: in rounds that H divides 32d bits up, or one message of C, and 32d bits down, or one of C; 0 in the others.
    Fragments: with `fragments` one of P parts of the model is exchanged every H/P rounds, and τ rounds later workers
    set x_i ← (1 − a)x_i + ax on it (Streaming DiLoCo, `bases.streaming`).
    Source: Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, 2023 (arXiv
    2311.08105), with H = 500, for 64,000 rounds after 24,000 of pre-training. With C it is the compressed DiLoCo of
    Thérien et al., MuLoCo, 2025 (arXiv 2505.23725). Their code also multiplies Δ by η before C, and compresses the
    mean without a memory. With η = 1 and μ = 0 it is local SGD.
    Differences: EXO Gym exchanges in inner steps H+1, 2H+1, …; here in H, 2H, …. Evaluations measure the x of the
    last exchange.
    """
    uplink: Channel = dense() if isinstance(compressor, Identity) else ErrorFeedback(compressor, decay=decay)
    outer = Nesterov(rate=outer_lr, momentum=outer_momentum)
    downlink = dense() if uplink_only else uplink
    whole = LocalSteps(uplink=uplink, downlink=downlink, update=outer, inner=update, period=period)
    return streaming(whole, layout, fragments, delay, mixing)
