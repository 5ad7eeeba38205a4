"""EF21-P by loops over workers and coordinates.

Source: Gruntkowska, Tyurin and Richtárik 2022, arXiv 2209.15218. The server has x, workers have w; w = x at first:

    worker i  (1) g_i = ∇f_i(w) + λw, sent as it is
    server    (2) x ← x − α mean_i g_i
              (3) p = C(x − w)
    all       (4) w ← w + p
"""

from collections.abc import Callable

from reference.loops import Gradient, Vector, mean


def ef21_p(
    gradient: Gradient,
    x: Vector,
    n: int,
    compress: Callable[[Vector], Vector],
    lr: float,
    rounds: int,
    weight_decay: float = 0.0,
) -> list[Vector]:
    """w after every round."""
    d = len(x)
    w, path = list(x), []
    for _ in range(rounds):
        sent = []
        for i in range(n):
            g = gradient(i, w)
            sent.append([g[k] + weight_decay * w[k] for k in range(d)])  # (1)
        average = mean(sent)
        x = [x[k] - lr * average[k] for k in range(d)]  # (2)
        p = compress([x[k] - w[k] for k in range(d)])  # (3)
        w = [w[k] + p[k] for k in range(d)]  # (4)
        path.append(w)
    return path
