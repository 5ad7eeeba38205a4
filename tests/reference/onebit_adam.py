"""1-bit Adam, and APMSqueeze, its forerunner, by loops over workers and coordinates.

Source: Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed" (2021),
Algorithm 1, as its authors' DeepSpeed optimizer runs it (no bias correction, ε outside the root, sgn±(0) = +1, a
momentum mask). Departures from DeepSpeed: one server for the whole vector and no padding; no dry first step, so v
sees all of the warm-up's gradients; weight decay is λx added to the gradient, not to the step. Equations (t: round):

    warm-up   (1) u = mean_i g_i + λx   (2) m ← β₁m + (1−β₁)u   (3) v ← β₂v + (1−β₂)u²   (4) x ← x − αm/(√v + ε)
    then      (5) m_i = β₁m + (1−β₁)(g_i + λx)
              (6) w_i = m_i + δ_i, c_i = C(w_i), δ_i ← w_i − c_i
              (7) y = mean_i c_i + δ_s, z = C(y), δ_s ← y − z
              (8) m ← z, zero where v = 0                                  (9) x ← x − αm/(√v + ε), v frozen

With `signal="gradient"`, the baseline of the CD-Adam authors' code, (5) is m_i = g_i and (8) is
m ← β₁m + (1−β₁)(z + λx), zero where v = 0.

APMSqueeze (Tang et al., "APMSqueeze: A Communication Efficient Adam-Preconditioned Momentum SGD Algorithm", 2020)
takes the 1-norm for the scale of C and, in (9), x ← x − αm/√max(v, 1e-16), a `floor`: ε is of the warm-up alone.
"""

import math
from collections.abc import Callable

from reference.compressors import scaled_sign_l2
from reference.loops import Gradient, Vector, mean


def onebit_adam(
    gradient: Gradient,
    x: Vector,
    n: int,
    lr: float,
    rounds: int,
    warmup: int,
    beta1: float = 0.9,
    beta2: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    signal: str = "momentum",
    compress: Callable[[Vector], Vector] = scaled_sign_l2,
    floor: float | None = None,
) -> list[Vector]:
    """x after each round; the rounds 1 … warmup are dense."""
    if signal not in ("momentum", "gradient"):
        raise ValueError(f"unknown signal {signal!r}")
    d = len(x)
    m, v = [0.0] * d, [0.0] * d
    delta, delta_server = [[0.0] * d for _ in range(n)], [0.0] * d  # still zero when the warm-up ends
    path = []
    for t in range(1, rounds + 1):
        g = [gradient(i, x) for i in range(n)]
        if t <= warmup:
            average = mean(g)
            for k in range(d):
                u = average[k] + weight_decay * x[k]  # (1)
                m[k] = beta1 * m[k] + (1 - beta1) * u  # (2)
                v[k] = beta2 * v[k] + (1 - beta2) * u * u  # (3)
        else:
            sent = []
            for i in range(n):
                w = [0.0] * d
                for k in range(d):
                    if signal == "momentum":
                        message = beta1 * m[k] + (1 - beta1) * (g[i][k] + weight_decay * x[k])  # (5)
                    else:
                        message = g[i][k]
                    w[k] = message + delta[i][k]
                c = compress(w)
                delta[i] = [w[k] - c[k] for k in range(d)]  # (6)
                sent.append(c)
            average = mean(sent)
            y = [average[k] + delta_server[k] for k in range(d)]
            z = compress(y)
            delta_server = [y[k] - z[k] for k in range(d)]  # (7), the memories unmasked
            for k in range(d):
                mask = 1.0 if v[k] != 0 else 0.0  # v no longer changes, so this is the mask of the switch
                if signal == "momentum":
                    m[k] = z[k] * mask  # (8)
                else:
                    m[k] = (beta1 * m[k] + (1 - beta1) * (z[k] + weight_decay * x[k])) * mask
        if t > warmup and floor is not None:
            x = [x[k] - lr * m[k] / math.sqrt(max(v[k], floor)) for k in range(d)]
        else:
            x = [x[k] - lr * m[k] / (math.sqrt(v[k]) + eps) for k in range(d)]  # (4), (9)
        path.append(x)
    return path
