"""LoCo by loops over workers and coordinates.

Source: Xie, Lin, Toh and Zhou 2024, arXiv 2407.04480, in the form of DeepSpeed's kernel, on the workers and, with a
memory of its own, on the server:

    (1) s = w + e,  q = C(s)
    (2) e ← βe + (1−β)(s − q), of which is kept what `kept` says
    (3) e ← 0 in rounds t that `reset` divides
"""

from collections.abc import Callable

from reference.loops import Gradient, Vector, mean


def loco(
    gradient: Gradient,
    x: Vector,
    n: int,
    compress: Callable[[Vector], Vector],
    lr: float,
    rounds: int,
    beta: float,
    reset: int | None,
    dense_down: bool = False,
    kept: Callable[[Vector], Vector] = list,
) -> list[Vector]:
    """x after every round of SGD."""
    errors = [[0.0] * len(x) for _ in range(n + 1)]  # the last is the server's
    path = []

    def sent(w: Vector, place: int, t: int) -> Vector:
        e = errors[place]
        s = [a + b for a, b in zip(w, e, strict=True)]
        q = compress(s)  # (1)
        errors[place] = kept([beta * e[k] + (1 - beta) * (s[k] - q[k]) for k in range(len(w))])  # (2)
        if reset is not None and t % reset == 0:
            errors[place] = [0.0] * len(w)  # (3)
        return q

    for t in range(1, rounds + 1):
        average = mean([sent(gradient(i, x), i, t) for i in range(n)])
        received = average if dense_down else sent(average, n, t)
        x = [a - lr * b for a, b in zip(x, received, strict=True)]
        path.append(x)
    return path
