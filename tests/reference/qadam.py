"""QAdam by loops over workers and coordinates.

Source: Bagua's `q_adam` algorithm and its MinMaxUInt8 codes. Departures from Bagua: one server and one chunk for the
whole vector, no padding; the gradient of the switching round is used, so v sees all of the warm-up's gradients;
weight decay stays in after the warm-up. Equations, with t the round:

    warm-up   (1) u = mean_i g_i + λx   (2) m ← β₁m + (1−β₁)u   (3) v ← β₂v + (1−β₂)u²
    then      (4) m_i = β₁m + (1−β₁)(g_i + λx)   (5) c_i = C(m_i)   (6) m ← C(mean_i c_i), v frozen
    always    (7) x ← x − α/(1−β₁ᵗ) · m/(√v/√(1−β₂ᵗ) + ε)

with both powers advancing after v is frozen, as in Bagua. Nothing is remembered and nothing is masked: 0 is on the
lattice of C, so a coordinate that never had a gradient stays where it is. C is

    (8) S = 255/(max − min + 1e-7), U = rint(max·S), L = U − 255
    (9) code = min(rint(x·S), U) − L, from 0 to 255; value (code + L)/S; rint rounds half to even
"""

import math

from reference.loops import Gradient, Vector, mean
from reference.quantizers import min_max_uint8


def qadam(
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
    """x after each round; the rounds 1 … warmup are dense."""
    d = len(x)
    m, v = [0.0] * d, [0.0] * d
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
                m_i = [beta1 * m[k] + (1 - beta1) * (g[i][k] + weight_decay * x[k]) for k in range(d)]  # (4)
                sent.append(min_max_uint8(m_i))  # (5)
            m = min_max_uint8(mean(sent))  # (6)
        correction1, correction2 = 1 - beta1**t, 1 - beta2**t
        moved = []
        for k in range(d):
            denominator = math.sqrt(v[k]) / math.sqrt(correction2) + eps
            moved.append(x[k] - lr / correction1 * m[k] / denominator)  # (7)
        x = moved
        path.append(x)
    return path
