"""SPARTA by loops over workers and coordinates.

Source: EXO Labs 2025, exo-explore/gym. In every round t, with coordinates S that are given

    worker i  (1) x_i ← the inner update's step from x_i with ∇f_i(x_i)
    all       (2) x_i[k] ← mean_j x_j[k] for k in S
"""

from collections.abc import Callable

from reference.local_steps import Inner
from reference.loops import Gradient, Vector


def sparta(
    gradient: Gradient, x: Vector, n: int, inner: Inner, rounds: int, chosen: Callable[[int], list[int]]
) -> list[list[Vector]]:
    """The workers' models after every round."""
    own, path = [list(x) for _ in range(n)], []
    for t in range(1, rounds + 1):
        for i in range(n):
            own[i] = inner(i, t, own[i], gradient(i, own[i]))  # (1)
        for k in chosen(t):
            average = sum(own[i][k] for i in range(n)) / n
            for i in range(n):
                own[i][k] = average  # (2)
        path.append([list(one) for one in own])
    return path
