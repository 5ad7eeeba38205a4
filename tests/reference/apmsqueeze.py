"""APMSqueeze by loops over workers and coordinates.

Source: Tang et al., "APMSqueeze: A Communication Efficient Adam-Preconditioned Momentum SGD Algorithm" (2020), the
forerunner of 1-bit Adam. This project's readings: Adam without bias correction in the warm-up, weight decay as λx
added to the gradient, the scale of C by the 1-norm, a floor of 1e-16 for the preconditioner, and a mask of the
coordinates with v = 0 at the end of the warm-up, whose momentum one bit cannot hold. Equations, with t the round:

    warm-up   (1) u = mean_i g_i + λx   (2) m ← β₁m + (1−β₁)u   (3) v ← β₂v + (1−β₂)u²   (4) x ← x − αm/(√v + ε)
    then      (5) m_i = β₁m + (1−β₁)(g_i + λx)
              (6) w_i = m_i + δ_i, c_i = C(w_i), δ_i ← w_i − c_i
              (7) y = mean_i c_i + δ_s, z = C(y), δ_s ← y − z
              (8) m ← z, zero where v = 0                                  (9) x ← x − αm/√max(v, 1e-16), v fixed
"""

from __future__ import annotations

import math

from reference.compressors import scaled_sign
from reference.loops import Gradient, Vector, mean


def apmsqueeze(
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
) -> list[Vector]:
    """x after each round; the rounds 1 … warmup are dense, and ε belongs to them alone."""
    d = len(x)
    m, v = [0.0] * d, [0.0] * d
    delta, delta_server = [[0.0] * d for _ in range(n)], [0.0] * d  # still zero when the warm-up ends
    path = []
    for t in range(1, rounds + 1):
        g = [gradient(i, x) for i in range(n)]
        moved = [0.0] * d
        if t <= warmup:
            average = mean(g)
            for k in range(d):
                u = average[k] + weight_decay * x[k]  # (1)
                m[k] = beta1 * m[k] + (1 - beta1) * u  # (2)
                v[k] = beta2 * v[k] + (1 - beta2) * u * u  # (3)
                moved[k] = x[k] - lr * m[k] / (math.sqrt(v[k]) + eps)  # (4)
        else:
            sent = []
            for i in range(n):
                m_i = [beta1 * m[k] + (1 - beta1) * (g[i][k] + weight_decay * x[k]) for k in range(d)]  # (5)
                w = [m_i[k] + delta[i][k] for k in range(d)]
                c = scaled_sign(w)
                delta[i] = [w[k] - c[k] for k in range(d)]  # (6)
                sent.append(c)
            average = mean(sent)
            y = [average[k] + delta_server[k] for k in range(d)]
            z = scaled_sign(y)
            delta_server = [y[k] - z[k] for k in range(d)]  # (7), the memories unmasked
            for k in range(d):
                m[k] = z[k] if v[k] != 0 else 0.0  # (8); v no longer changes, so this is the mask of the switch
                moved[k] = x[k] - lr * m[k] / math.sqrt(max(v[k], 1e-16))  # (9)
        x = moved
        path.append(x)
    return path
