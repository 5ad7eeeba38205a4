"""Quantized Adam with error feedback by loops over workers and coordinates.

Source: Chen et al., "Quantized Adam with Error Feedback" (2021), the parameter-server form with several workers. The
two quantizers are this project's reading of it. Equations, with t the round and x̂ the weights that came down last
(x̂ = x before the first round, dense):

    worker i  (1) g_i = ∇f_i(x̂) + λx̂
              (2) v_i ← θ_t v_i + (1−θ_t)g_i²,  θ_t = θ, or 1 − θ/t
              (3) m_i ← βm_i + (1−β)g_i
              (4) s = α m_i/√(v_i + ε) + e_i
              (5) q_i = Q_g(s),  e_i ← s − q_i
    server    (6) x ← x − mean_i q_i
              (7) x̂ ← Q_x(x), or x

    (8) Q_g(s) = ‖s‖∞ · the nearest of 0, ±2⁰, ±2⁻¹, …, ±2^−(2^(b−1) − 2); halfway: the larger magnitude
    (9) Q_x(x) = ‖x‖∞ · the nearest multiple of 1/(2^(b−1) − 1); halfway: the even multiple

The source does not say where halfway values go: a choice. There is no bias correction, and ε is inside the root.
"""

import math

from reference.loops import Gradient, Vector
from reference.quantizers import log_quantize, uniform_quantize


def quantized_adam(
    gradient: Gradient,
    x: Vector,
    n: int,
    lr: float,
    rounds: int,
    beta: float = 0.9,
    theta: float = 0.99,
    eps: float = 1e-8,
    gradient_bits: int = 3,
    weight_bits: int | None = 8,
    theta_schedule: str = "constant",
    weight_decay: float = 0.0,
) -> tuple[list[Vector], list[Vector]]:
    """The server's weights and the weights that come down, after each round; `weight_bits` None sends them dense."""
    if theta_schedule not in ("constant", "one_minus_theta_over_t"):
        raise ValueError(f"unknown theta_schedule {theta_schedule!r}")
    d = len(x)
    m = [[0.0] * d for _ in range(n)]
    v = [[0.0] * d for _ in range(n)]
    e = [[0.0] * d for _ in range(n)]
    received = list(x)
    server_path, received_path = [], []
    for t in range(1, rounds + 1):
        theta_t = theta if theta_schedule == "constant" else 1 - theta / t
        total = [0.0] * d
        for i in range(n):
            g = gradient(i, received)
            s = [0.0] * d
            for k in range(d):
                g_k = g[k] + weight_decay * received[k]  # (1)
                v[i][k] = theta_t * v[i][k] + (1 - theta_t) * g_k * g_k  # (2)
                m[i][k] = beta * m[i][k] + (1 - beta) * g_k  # (3)
                s[k] = lr * m[i][k] / math.sqrt(v[i][k] + eps) + e[i][k]  # (4)
            q = log_quantize(s, gradient_bits)
            for k in range(d):
                e[i][k] = s[k] - q[k]  # (5)
                total[k] += q[k]
        x = [x[k] - total[k] / n for k in range(d)]  # (6)
        received = list(x) if weight_bits is None else uniform_quantize(x, weight_bits)  # (7)
        server_path.append(x)
        received_path.append(received)
    return server_path, received_path
