"""DIANA by loops over workers and coordinates.

Source: Mishchenko, Gorbunov, Takáč and Richtárik 2019, arXiv 1901.09269, without the proximal step:

    worker i  (1) c_i = C(g_i − h_i)
              (2) h_i ← h_i + a·c_i
    server    (3) ĝ = h + mean_i c_i
              (4) h ← h + a·mean_i c_i
    all       (5) x ← x − αĝ, or with `learnt` x ← x − αh
"""

from collections.abc import Callable

from reference.loops import Gradient, Vector, mean


def diana(
    gradient: Gradient,
    x: Vector,
    n: int,
    compress: Callable[[Vector, int, int], Vector],
    lr: float,
    rounds: int,
    rate: float,
    learnt: bool = False,
) -> list[Vector]:
    """x after every round; `compress` is told the worker and the round, which it may draw from."""
    d = len(x)
    h_worker = [[0.0] * d for _ in range(n)]
    h, path = [0.0] * d, []
    for t in range(1, rounds + 1):
        messages = []
        for i in range(n):
            g = gradient(i, x)
            c = compress([g[k] - h_worker[i][k] for k in range(d)], i, t)  # (1)
            for k in range(d):
                h_worker[i][k] += rate * c[k]  # (2)
            messages.append(c)
        average = mean(messages)
        for k in range(d):
            g_hat = h[k] + average[k]  # (3)
            h[k] += rate * average[k]  # (4)
            x = [*x[:k], x[k] - lr * (h[k] if learnt else g_hat), *x[k + 1 :]]  # (5)
        path.append(x)
    return path
