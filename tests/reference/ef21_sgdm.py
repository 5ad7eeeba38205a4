"""EF21-SGDM and EF21-SGD2M by loops over workers and coordinates.

Source: Fatkhullin, Tyurin and Richtárik 2023, arXiv 2305.15155. With t the round, from 1:

    worker i  (1) v_i ← (1−η)v_i + η(∇f_i(x) + λx),  in round 1 v_i = ∇f_i(x) + λx
              (2) SGD2M: u_i ← (1−η)u_i + ηv_i,  in round 1 u_i = v_i
              (3) c_i = C(w_i − ĝ_i),  w_i = v_i, or u_i for SGD2M;  round 1 of a dense start: c_i = w_i
              (4) ĝ_i ← ĝ_i + c_i
    server    (5) ĝ ← ĝ + mean_i c_i
    all       (6) x ← x − αĝ
"""

from collections.abc import Callable

from reference.loops import Gradient, Vector, mean


def ef21_sgdm(
    gradient: Gradient,
    x: Vector,
    n: int,
    compress: Callable[[Vector], Vector],
    lr: float,
    rounds: int,
    eta: float,
    double: bool = False,
    dense_start: bool = True,
    weight_decay: float = 0.0,
) -> list[Vector]:
    """x after every round; the downlink is dense."""
    d = len(x)
    v, u, known = ([[0.0] * d for _ in range(n)] for _ in range(3))
    g_hat, path = [0.0] * d, []
    for t in range(1, rounds + 1):
        messages = []
        for i in range(n):
            g = gradient(i, x)
            for k in range(d):
                g_k = g[k] + weight_decay * x[k]
                v[i][k] = g_k if t == 1 else (1 - eta) * v[i][k] + eta * g_k  # (1)
                u[i][k] = v[i][k] if t == 1 else (1 - eta) * u[i][k] + eta * v[i][k]  # (2)
            w = u[i] if double else v[i]
            difference = [w[k] - known[i][k] for k in range(d)]
            c = difference if dense_start and t == 1 else compress(difference)  # (3)
            known[i] = [known[i][k] + c[k] for k in range(d)]  # (4)
            messages.append(c)
        average = mean(messages)
        g_hat = [g_hat[k] + average[k] for k in range(d)]  # (5)
        x = [x[k] - lr * g_hat[k] for k in range(d)]  # (6)
        path.append(x)
    return path
