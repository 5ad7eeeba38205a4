"""How the rows of a data set, labels [N], are shared over n workers in equal parts."""

import zlib

import numpy as np

from common.errors import UsageError


def generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """The random numbers of (seed, purpose, index): the same whatever else is drawn, independent of the others.

    purpose: what is drawn, in words; index: which worker or class it is for.
    Raises ValueError where the seed is negative.
    """
    key = (zlib.crc32(purpose.encode()), index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def share(labels: np.ndarray, workers: int, how: str, seed: int, alpha: float = 1.0) -> np.ndarray:
    """The row numbers of each worker, int64 [n, m], m = floor(N / n); N - n m rows are left out.

    how: contiguous, worker i has rows i m to (i + 1) m - 1; shuffled, every worker has a uniform sample; or
    dirichlet, with label skew: the smaller `alpha`, finite and above 0, the more the workers' class shares differ.
    Raises UsageError where n is not in 1 to N, ValueError for another `how`.
    """
    size = part_size(len(labels), workers)
    match how:
        case "contiguous":
            order = np.arange(len(labels))
        case "shuffled":
            order = generator(seed, "shuffled partition").permutation(len(labels))
        case "dirichlet":
            order = np.array(_dirichlet(labels, workers, size, seed, alpha))
        case _:
            raise ValueError(f"partition={how}: contiguous, shuffled or dirichlet")
    return order[: size * workers].astype(np.int64).reshape(workers, size)


def _dirichlet(labels: np.ndarray, workers: int, size: int, seed: int, alpha: float) -> list[int]:
    """The rows of every worker, one after the other.

    Worker i asks for class shares p_i ~ Dirichlet(alpha K q), K the number of classes and q their shares in
    the whole set, so that p_i is q on average; for balanced classes that is Dirichlet(alpha, ..., alpha). It
    gets m p_i rows of each class, rounded, drawn at random. Workers are served in order; where a class has
    run out, the rows come from the class that has most left.
    """
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
    return order


def part_size(rows: int, workers: int) -> int:
    """m = floor(N / n)."""
    if not 1 <= workers <= rows:
        raise UsageError(
            f"cluster.workers={workers}: the data set has {rows} rows; give at most {rows} workers, at least 1"
        )
    return rows // workers
