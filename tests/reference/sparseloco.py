"""SparseLoCo by loops over workers and coordinates.

Source: Sarfi et al. 2025, arXiv 2508.15706. In every round t

    worker i  (1) x_i ← the inner update's step from x_i with ∇f_i(x_i)
    where H divides t:
    worker i  (2) e_i ← βe_i + x − x_i, c_i = C(e_i), e_i ← e_i − c_i
    all       (3) z = mean_i c_i, or of every coordinate the mean over those that sent it, be it 0
              (4) x ← x − ηz, x_i ← x
"""

from collections.abc import Callable

from reference.local_steps import Inner
from reference.loops import Gradient, Vector


def sparseloco(
    gradient: Gradient,
    x: Vector,
    n: int,
    inner: Inner,
    rounds: int,
    period: int,
    compress: Callable[[Vector], Vector],
    chosen: Callable[[Vector], list[int]],
    beta: float,
    eta: float,
    senders: bool,
) -> list[Vector]:
    """The common x after every round."""
    d = len(x)
    own, errors, path = [list(x) for _ in range(n)], [[0.0] * d for _ in range(n)], []
    for t in range(1, rounds + 1):
        for i in range(n):
            own[i] = inner(i, t, own[i], gradient(i, own[i]))  # (1)
        if t % period == 0:
            sent, by = [], [0] * d
            for i in range(n):
                e = [beta * errors[i][k] + x[k] - own[i][k] for k in range(d)]
                c = compress(e)
                for k in chosen(e):
                    by[k] += 1
                errors[i] = [e[k] - c[k] for k in range(d)]  # (2)
                sent.append(c)
            moved = []
            for k in range(d):
                among = by[k] if senders else n
                z = sum(c[k] for c in sent) / among if among else 0.0  # (3)
                moved.append(x[k] - eta * z)  # (4)
            x, own = moved, [list(moved) for _ in range(n)]
        path.append(list(x))
    return path
