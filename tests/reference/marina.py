"""MARINA and DASHA by loops over workers and coordinates.

MARINA (Gorbunov, Burlachenko, Li and Richtárik 2021, arXiv 2102.07845, Algorithm 1):

    worker i  (1) coin: c_i = g_i, else c_i = C(g_i − g_i'), g_i' of the round before
    server    (2) coin: ĝ = mean_i c_i, else ĝ ← ĝ + mean_i c_i
    all       (3) x ← x − αĝ

DASHA (Tyurin and Richtárik 2023, arXiv 2202.01268), ĝ_i = h_i = g_i in round 1:

    worker i  (4) c_i = C(g_i − h_i − a(ĝ_i − h_i))
              (5) ĝ_i ← ĝ_i + c_i, h_i ← g_i
    server    (6) ĝ ← ĝ + mean_i c_i
    all       (7) x ← x − αĝ
"""

from collections.abc import Callable, Sequence

from reference.loops import Gradient, Vector, mean

Compress = Callable[[Vector, int, int], Vector]


def marina(
    gradient: Gradient, x: Vector, n: int, compress: Compress, lr: float, coins: Sequence[bool]
) -> list[Vector]:
    """x after every round, of which `coins` has one each; `compress` is told the worker and the round."""
    d = len(x)
    before = [[0.0] * d for _ in range(n)]
    estimate, path = [0.0] * d, []
    for t, heads in enumerate(coins, 1):
        sent = []
        for i in range(n):
            g = gradient(i, x)
            sent.append(g if heads else compress([g[k] - before[i][k] for k in range(d)], i, t))  # (1)
            before[i] = g
        average = mean(sent)
        estimate = [average[k] + (0.0 if heads else estimate[k]) for k in range(d)]  # (2)
        x = [x[k] - lr * estimate[k] for k in range(d)]  # (3)
        path.append(x)
    return path


def dasha(
    gradient: Gradient, x: Vector, n: int, compress: Compress, lr: float, rounds: int, a: float, start: str = "dense"
) -> list[Vector]:
    """x after every round; `compress` is told the worker and the round."""
    d = len(x)
    h, known = ([[0.0] * d for _ in range(n)] for _ in range(2))
    estimate, path = [0.0] * d, []
    for t in range(1, rounds + 1):
        sent = []
        for i in range(n):
            g = gradient(i, x)
            if t == 1 and start == "share":
                h[i] = g
            wanted = [g[k] - h[i][k] - a * (known[i][k] - h[i][k]) for k in range(d)]
            c = g if t == 1 and start == "dense" else compress(wanted, i, t)  # (4)
            known[i] = [known[i][k] + c[k] for k in range(d)]  # (5)
            h[i] = g
            sent.append(c)
        average = mean(sent)
        estimate = [estimate[k] + average[k] for k in range(d)]  # (6)
        x = [x[k] - lr * estimate[k] for k in range(d)]  # (7)
        path.append(x)
    return path
