"""What the references share."""

from collections.abc import Callable

Vector = list[float]
Gradient = Callable[[int, Vector], Vector]


def mean(vectors: list[Vector]) -> Vector:
    """The workers' mean."""
    total = [0.0] * len(vectors[0])
    for vector in vectors:  # in worker order, uncompensated: whether v is exactly zero depends on it
        for k in range(len(total)):
            total[k] += vector[k]
    return [value / len(vectors) for value in total]
