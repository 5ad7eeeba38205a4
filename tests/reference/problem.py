"""What the references share: their mean, and a small nonconvex logistic regression (7.1) with workers that differ."""

import math
import random
from collections.abc import Callable

Vector = list[float]
Gradient = Callable[[int, Vector], Vector]
Rows = list[tuple[Vector, int]]
"""(a_j, y_j)."""

WORKERS, ROWS, D, LAMBDA = 4, 5, 7, 0.1
START = [0.1] * D


def mean(vectors: list[Vector]) -> Vector:
    """The workers' mean."""
    total = [0.0] * len(vectors[0])
    for vector in vectors:  # in worker order, uncompensated: whether v is exactly zero depends on it
        for k in range(len(total)):
            total[k] += vector[k]
    return [value / len(vectors) for value in total]


def drawn(numbers: random.Random, workers: int, rows: int, d: int) -> list[Rows]:
    """The rows of every worker."""
    return [
        [([numbers.gauss(0.3 * i, 1) for _ in range(d)], numbers.choice((-1, 1))) for _ in range(rows)]
        for i in range(workers)
    ]


def of_rows(rows: Rows, x: Vector) -> Vector:
    """The gradient of a worker with these rows."""
    total = [0.0] * len(x)
    for a, y in rows:
        margin = y * sum(a[k] * x[k] for k in range(len(x)))
        for k in range(len(x)):
            total[k] -= y * a[k] / (1 + math.exp(margin)) / len(rows)
    return [total[k] + LAMBDA * 2 * x[k] / (1 + x[k] ** 2) ** 2 for k in range(len(x))]


DATA = drawn(random.Random(7), WORKERS, ROWS, D)


def gradient(i: int, x: Vector) -> Vector:
    """∇f_i(x)."""
    return of_rows(DATA[i], x)


def of_groups(gradient: Callable[..., Vector], size: int, clip: float) -> Callable[..., Vector]:
    """The gradient of a group: the mean over `size` neighbours, whose gradients are no longer than `clip`."""

    def of_group(g: int, x: Vector, *t: int) -> Vector:
        found = [gradient(i, x, *t) for i in range(g * size, (g + 1) * size)]
        return mean([[value * min(1, clip / (math.hypot(*one) + 1e-6)) for value in one] for one in found])

    return of_group
