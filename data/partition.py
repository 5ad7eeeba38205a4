"""How the rows of a data set, labels [N], are shared over n workers in equal parts.

Every function raises UsageError where n is not in 1 to N.
"""

from dataclasses import dataclass

import numpy as np

from common.errors import UsageError
from data.keyed import generator


@dataclass(frozen=True, eq=False)
class Parts:
    """N rows shared over n workers, m = floor(N / n) each.

    rows: int64 [n, m], the row numbers of each worker.
    left_out: int64 [N - n m], the row numbers that no worker has, ascending.
    """

    rows: np.ndarray
    left_out: np.ndarray


def share(labels: np.ndarray, workers: int, how: str, seed: int, alpha: float) -> Parts:
    """Parts by the name of a function below. Raises ValueError for another name."""
    match how:
        case "contiguous":
            return contiguous(labels, workers)
        case "shuffled":
            return shuffled(labels, workers, seed)
        case "dirichlet":
            return dirichlet(labels, workers, seed, alpha)
    raise ValueError(f"partition={how}: contiguous, shuffled or dirichlet")


def contiguous(labels: np.ndarray, workers: int) -> Parts:
    """Rows in file order: worker i has rows i m to (i + 1) m - 1."""
    return _split(np.arange(len(labels)), workers)


def shuffled(labels: np.ndarray, workers: int, seed: int) -> Parts:
    """Rows in random order: every worker has a uniform sample of them."""
    return _split(generator(seed, "shuffled partition").permutation(len(labels)), workers)


def dirichlet(labels: np.ndarray, workers: int, seed: int, alpha: float) -> Parts:
    """Parts with label skew: the smaller `alpha`, the more the workers' class shares differ.

    Worker i asks for class shares p_i ~ Dirichlet(alpha K q), K the number of classes and q their shares in
    the whole set, so that p_i is q on average; for balanced classes that is Dirichlet(alpha, ..., alpha). It
    gets m p_i rows of each class, rounded, drawn at random. Workers are served in order; where a class has
    run out, the rows come from the class that has most left.

    alpha: finite and above 0; large gives every worker the shares of the whole set.
    """
    size = part_size(len(labels), workers)
    classes, counts = np.unique(labels, return_counts=True)
    # The next row of a class is the last one of its list.
    pools = [
        generator(seed, "dirichlet rows", index).permutation(np.flatnonzero(labels == label)).tolist()
        for index, label in enumerate(classes)
    ]
    concentration = alpha * len(classes) * counts / len(labels)
    order: list[int] = []
    for worker in range(workers):
        shares = generator(seed, "dirichlet shares", worker).dirichlet(concentration)
        asked = np.diff(np.rint(size * np.cumsum(shares)), prepend=0).astype(int)
        part: list[int] = []
        for pool, number in zip(pools, asked, strict=True):
            part += [pool.pop() for _ in range(min(number, len(pool)))]
        while len(part) < size:
            part.append(max(pools, key=len).pop())
        order += part
    left_out = [row for pool in pools for row in pool]
    return _split(np.array(order + left_out), workers)


def _split(order: np.ndarray, workers: int) -> Parts:
    size = part_size(len(order), workers)
    used = size * workers
    order = order.astype(np.int64)
    return Parts(order[:used].reshape(workers, size), np.sort(order[used:]))


def part_size(rows: int, workers: int) -> int:
    """m = floor(N / n)."""
    if not 1 <= workers <= rows:
        raise UsageError(
            f"cluster.workers={workers}: the data set has {rows} rows; give at most {rows} workers, at least 1"
        )
    return rows // workers
