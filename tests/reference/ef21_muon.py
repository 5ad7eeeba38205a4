"""EF21-Muon by loops over workers, tensors and entries.

Source: Gruntkowska, Gaponov, Tovmasyan and Richtárik 2025, in the order of rounds that begin with gradients:

    worker i  (1) M_i ← (1−β)M_i + β∇f_i(W); M_i = ∇f_i(W) in round 1 of a dense start
              (2) R_i = C(M_i − G_i), G_i ← G_i + R_i; uncompressed in round 1 of a dense start
    server    (3) G ← G + mean_i R_i
              (4) X ← X − αλX − αs·NS(G), of what is no matrix AdamW along G
              (5) S = C(X − W), W ← W + S
"""

from collections.abc import Callable

from reference.loops import Gradient, Vector, mean
from reference.matrices import TENSORS, as_matrix, flat, parts
from reference.muon import SCALES, AdamW, newton_schulz


def ef21_muon(
    gradient: Gradient,
    x: Vector,
    n: int,
    compress: Callable[[Vector], Vector],
    lr: float,
    rounds: int,
    beta: float,
    scale: str,
    others_lr: float,
    weight_decay: float,
    dense_start: bool,
    dense_down: bool,
) -> list[Vector]:
    """W after every round."""
    d, w = len(x), list(x)
    m = [[0.0] * d for _ in range(n)]
    estimate = [[0.0] * d for _ in range(n)]
    g_hat, path = [0.0] * d, []
    adam = [AdamW(len(part), 0.9, 0.95, 1e-10) for part in parts(x)]
    for t in range(1, rounds + 1):
        is_first = dense_start and t == 1
        messages = []
        for i in range(n):
            g = gradient(i, w)
            m[i] = g if is_first else [(1 - beta) * m[i][k] + beta * g[k] for k in range(d)]  # (1)
            news = [m[i][k] - estimate[i][k] for k in range(d)]
            r = news if is_first else compress(news)  # (2)
            estimate[i] = [estimate[i][k] + r[k] for k in range(d)]
            messages.append(r)
        average = mean(messages)
        g_hat = [g_hat[k] + average[k] for k in range(d)]  # (3)
        moved: Vector = []
        for j, (part, u) in enumerate(zip(parts(x), parts(g_hat), strict=True)):
            _, shape, role = TENSORS[j]
            if role == "matrix":
                step = flat(newton_schulz(as_matrix(u, shape)))
                s = SCALES[scale](shape[0], len(part) // shape[0])
                moved += [v - lr * weight_decay * v - lr * s * o for v, o in zip(part, step, strict=True)]  # (4)
            else:
                moved += adam[j].step(part, u, others_lr * lr, weight_decay)
        x = moved
        news = [x[k] - w[k] for k in range(d)]
        s = news if dense_down else compress(news)
        w = [w[k] + s[k] for k in range(d)]  # (5)
        path.append(w)
    return path
