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

from math import sqrt

from reference.methods import error_feedback, plus
from reference.quantizers import log_quantize, uniform_quantize


def quantized_adam(gradient, x, n, lr, rounds, beta, theta, eps, gradient_bits, weight_bits, schedule, weight_decay):
    """The server's weights and the weights that come down, after each round; `weight_bits` None sends them dense."""
    d = len(x)
    m, v = [[0.0] * d for _ in range(n)], [[0.0] * d for _ in range(n)]
    ups = [error_feedback(lambda s: log_quantize(s, gradient_bits)) for _ in range(n)]
    received, server_path, received_path = list(x), [], []
    for t in range(1, rounds + 1):
        theta_t = theta if schedule == "constant" else 1 - theta / t
        total = [0.0] * d
        for i in range(n):
            g = plus(gradient(i, received), received, weight_decay)  # (1)
            v[i] = [theta_t * v[i][k] + (1 - theta_t) * g[k] * g[k] for k in range(d)]  # (2)
            m[i] = [beta * m[i][k] + (1 - beta) * g[k] for k in range(d)]  # (3)
            total = plus(total, ups[i]([lr * m[i][k] / sqrt(v[i][k] + eps) for k in range(d)], t))  # (4), (5)
        x = plus(x, total, -1 / n)  # (6)
        received = list(x) if weight_bits is None else uniform_quantize(x, weight_bits)  # (7)
        server_path.append(x)
        received_path.append(received)
    return server_path, received_path
