"""A small nonconvex logistic regression (7.1) with workers that differ, in plain Python."""

import math
import random

WORKERS, ROWS, D, LAMBDA = 4, 5, 7, 0.1
START = [0.1] * D

_random = random.Random(7)
DATA = [
    [([_random.gauss(0.3 * i, 1) for _ in range(D)], _random.choice((-1, 1))) for _ in range(ROWS)]
    for i in range(WORKERS)
]
"""DATA[i][j] = (a_j, y_j) of worker i."""


def gradient(i: int, x: list[float]) -> list[float]:
    """∇f_i(x)."""
    total = [0.0] * D
    for a, y in DATA[i]:
        margin = y * sum(a[k] * x[k] for k in range(D))
        for k in range(D):
            total[k] -= y * a[k] / (1 + math.exp(margin)) / ROWS
    return [total[k] + LAMBDA * 2 * x[k] / (1 + x[k] ** 2) ** 2 for k in range(D)]


def loss(i: int, x: list[float]) -> float:
    """f_i(x)."""
    margins = [y * sum(a[k] * x[k] for k in range(D)) for a, y in DATA[i]]
    fit = sum(math.log1p(math.exp(-margin)) for margin in margins) / ROWS
    return fit + LAMBDA * sum(value**2 / (1 + value**2) for value in x)
