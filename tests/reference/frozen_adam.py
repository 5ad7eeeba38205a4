"""1-bit Adam, its forerunner APMSqueeze, and QAdam, by loops over workers and coordinates.

Sources: Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed" (2021),
Algorithm 1, as its authors' DeepSpeed optimizer runs it; Tang et al., "APMSqueeze" (2020); Bagua's `q_adam`.
Departures: one server for the whole vector and no padding; v sees all of the warm-up's gradients; weight decay is λx
added to the gradient, after the warm-up too. Equations, with t the round:

    warm-up   (1) u = mean_i g_i + λx   (2) m ← β₁m + (1−β₁)u   (3) v ← β₂v + (1−β₂)u²
    then      (4) m_i = β₁m + (1−β₁)(g_i + λx), sent up and down   (5) m ← what came down, zero where v = 0, v frozen
    always    (6) x ← x − αm/(√v + ε)

With `signal="gradient"`, the baseline of the CD-Adam authors' code, (4) is m_i = g_i and (5) m ← β₁m + (1−β₁)(z + λx)
of the z that came down. APMSqueeze's (6) is x ← x − αm/√max(v, 1e-16) after the warm-up, a `floor`. QAdam has no mask
in (5), and its (6) is `corrected`: x ← x − α/(1−β₁ᵗ) · m/(√v/√(1−β₂ᵗ) + ε), with both powers advancing ever on.
"""

from math import sqrt

from reference.methods import plus
from reference.problem import mean


def frozen_adam(gradient, x, n, lr, rounds, warmup, channel, beta2, weight_decay,
                signal="momentum", mask=True, floor=None, corrected=False):  # fmt: skip
    """x after each round; the rounds 1 … warmup are dense, then every sender has a channel that `channel` makes."""
    d, beta1, eps = len(x), 0.9, 1e-8
    m, v = [0.0] * d, [0.0] * d
    ups, down = [channel() for _ in range(n)], channel()
    path = []
    for t in range(1, rounds + 1):
        g = [gradient(i, x) for i in range(n)]
        if t <= warmup:
            u = plus(mean(g), x, weight_decay)  # (1)
            m = [beta1 * m[k] + (1 - beta1) * u[k] for k in range(d)]  # (2)
            v = [beta2 * v[k] + (1 - beta2) * u[k] * u[k] for k in range(d)]  # (3)
        else:
            if signal == "momentum":
                g = [[beta1 * m[k] + (1 - beta1) * (own[k] + weight_decay * x[k]) for k in range(d)] for own in g]
            z = down(mean([up(own, t) for up, own in zip(ups, g, strict=True)]), t)  # (4)
            if signal == "gradient":
                z = [beta1 * m[k] + (1 - beta1) * (z[k] + weight_decay * x[k]) for k in range(d)]
            m = [z[k] if v[k] != 0 or not mask else 0.0 for k in range(d)]  # (5)
        if t > warmup and floor is not None:
            x = [x[k] - lr * m[k] / sqrt(max(v[k], floor)) for k in range(d)]
        elif corrected:
            root = sqrt(1 - beta2**t)
            x = [x[k] - lr / (1 - beta1**t) * m[k] / (sqrt(v[k]) / root + eps) for k in range(d)]
        else:
            x = [x[k] - lr * m[k] / (sqrt(v[k]) + eps) for k in range(d)]  # (6)
        path.append(x)
    return path
