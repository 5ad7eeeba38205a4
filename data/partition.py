"""Partition the rows of a data set, labels [N], into equal parts for n workers."""

import zlib

import numpy as np

from common.errors import UsageError


def generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """Return the generator of (seed, purpose, index). It is independent of all others, whatever else is drawn.

    purpose: the use of the numbers, in words. index: the worker or class that they are for.
    Raises ValueError if the seed is negative.
    """
    key = (zlib.crc32(purpose.encode()), index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def share(labels: np.ndarray, workers: int, how: str, seed: int, alpha: float = 1.0) -> np.ndarray:
    """Return the row numbers of each worker, int64 [n, m], m = floor(N / n). N - n m rows are left out.

    how: contiguous, worker i has rows i m to (i + 1) m - 1; shuffled, every worker has a uniform sample; or
    dirichlet, with label skew: the smaller `alpha`, finite and above 0, the more the workers' class shares differ.
    Raises UsageError unless n is in 1 to N, ValueError for another `how`.
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
    """Return the rows of all workers, concatenated.

    Worker i asks for class shares p_i ~ Dirichlet(alpha K q), with K classes of shares q in the whole set. So p_i
    is q on average; for balanced classes this is Dirichlet(alpha, ..., alpha). The worker gets m p_i rows of each
    class, rounded, drawn at random. Workers are served in order. If a class has run out, the rows come from the
    class with most rows left.
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
