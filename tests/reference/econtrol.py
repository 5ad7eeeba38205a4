"""EControl by loops over workers and coordinates.

Source: Gao, Islamov and Stich 2023, arXiv 2311.05645:

    worker i  (1) Δ_i = C(ηe_i + g_i − h_i);  round 1 of a dense start: Δ_i = g_i − h_i, h_i = e_i = 0
              (2) h_i ← h_i + Δ_i
              (3) e_i ← e_i + g_i − h_i, with the new h_i
    server    (4) ĝ ← ĝ + mean_i Δ_i
    all       (5) x ← x − αĝ
"""

from collections.abc import Callable

from reference.loops import Gradient, Vector, mean


def econtrol(
    gradient: Gradient,
    x: Vector,
    n: int,
    compress: Callable[[Vector], Vector],
    lr: float,
    rounds: int,
    eta: float,
    dense_start: bool = True,
) -> list[Vector]:
    """x after every round."""
    d = len(x)
    h, e = ([[0.0] * d for _ in range(n)] for _ in range(2))
    g_hat, path = [0.0] * d, []
    for t in range(1, rounds + 1):
        messages = []
        for i in range(n):
            g = gradient(i, x)
            wanted = [eta * e[i][k] + g[k] - h[i][k] for k in range(d)]
            message = wanted if dense_start and t == 1 else compress(wanted)  # (1)
            for k in range(d):
                h[i][k] += message[k]  # (2)
                e[i][k] += g[k] - h[i][k]  # (3)
            messages.append(message)
        average = mean(messages)
        g_hat = [g_hat[k] + average[k] for k in range(d)]  # (4)
        x = [x[k] - lr * g_hat[k] for k in range(d)]  # (5)
        path.append(x)
    return path
