"""DASHA-MVR by loops over workers and coordinates (Tyurin and Richtárik 2023, arXiv 2202.01268).

In round 1 h_i = g_i and ĝ_i = g_i, or C(g_i) for `zero`, or C(a·g_i) for `share`, and then, g_i and p_i
being gradients on one batch, at x and at the x of the round before:

    worker i  (1) h_i' = g_i + (1−b)(h_i − p_i)
              (2) c_i = C(h_i' − h_i − a(ĝ_i − h_i))
              (3) ĝ_i ← ĝ_i + c_i, h_i ← h_i'
    server    (4) ĝ ← ĝ + mean_i c_i
    all       (5) x ← x − αĝ
"""

from collections.abc import Callable

from reference.loops import Vector, mean
from reference.marina import Compress


def dasha_mvr(
    gradient: Callable[[int, Vector, int], Vector], x: Vector, n: int, compress: Compress, lr: float, rounds: int,
    a: float, b: float, start: str = "dense",
) -> list[Vector]:  # fmt: skip
    """x after every round; `gradient` is told worker, model and round, `compress` the worker and the round."""
    d, before = len(x), x
    h = [gradient(i, x, 1) for i in range(n)]
    known = (
        h
        if start == "dense"
        else [compress(h[i] if start == "zero" else [a * g for g in h[i]], i, 1) for i in range(n)]
    )
    known = [[*vector] for vector in known]
    estimate, path = mean(known), []
    for t in range(1, rounds + 1):
        if t > 1:
            sent = []
            for i in range(n):
                g, p = gradient(i, x, t), gradient(i, before, t)
                new = [g[k] + (1 - b) * (h[i][k] - p[k]) for k in range(d)]  # (1)
                c = compress([new[k] - h[i][k] - a * (known[i][k] - h[i][k]) for k in range(d)], i, t)  # (2)
                known[i] = [known[i][k] + c[k] for k in range(d)]  # (3)
                h[i] = new
                sent.append(c)
            average = mean(sent)
            estimate = [estimate[k] + average[k] for k in range(d)]  # (4)
        before, x = x, [x[k] - lr * estimate[k] for k in range(d)]  # (5)
        path.append(x)
    return path
