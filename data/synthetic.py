"""A made-up problem with a knob for how different the workers' data are."""

import math

import numpy as np

from common.errors import DataError
from data.dataset import Dataset
from data.keyed import generator
from data.partition import part_size


def synthetic(
    rows: int = 2000,  # of all workers together
    features: int = 50,  # d
    workers: int = 20,  # whose distributions differ by `heterogeneity`
    heterogeneity: float = 0.0,  # 0: all workers share one distribution; larger: they differ more
    noise: float = 0.5,  # of the labels
    seed: int = 0,  # of the data
) -> Dataset:
    """N rows of d features in n blocks, block i drawn from worker i's own distribution.

    With h the heterogeneity, and u, v_i, b_i in R^d drawn from N(0, I), row j of worker i is

        x_ij = h b_i / sqrt(d) + z_ij                         z_ij ~ N(0, I)
        y_ij = +1 if <w_i, x_ij> + noise * e_ij > 0 else -1   e_ij ~ N(0, 1)
        w_i  = (u + h v_i) / |u + h v_i|

    At h = 0 all workers share one distribution, in which arctan(noise) / pi of the labels are flipped. As h
    grows the true weights w_i turn to independent directions and the means move apart, by about sqrt(2) h.

    Worker i has rows i m to (i + 1) m - 1, m = floor(N / n), as a contiguous partition shares them; the last
    worker's distribution also gives the N - n m rows left. Its first k rows depend on (seed, d, h, noise, i) alone,
    for any k.
    Raises DataError for features, heterogeneity or noise outside these ranges, UsageError where n is not in 1 to N.
    """
    if features < 1:
        raise DataError(f"synthetic data: features is {features}: give at least 1")
    for name, value in (("heterogeneity", heterogeneity), ("noise", noise)):
        if not 0 <= value < math.inf:
            raise DataError(f"synthetic data: {name} is {value}: give a finite number of at least 0")

    size = part_size(rows, workers)
    sizes = [size] * (workers - 1) + [rows - size * (workers - 1)]
    shared = generator(seed, "shared weights").standard_normal(features)
    points, scores = [], []
    for worker, count in enumerate(sizes):
        own, shift = generator(seed, "worker weights and mean", worker).standard_normal((2, features))
        weights = shared + heterogeneity * own
        # Row after row from one generator each: further rows leave the earlier ones as they are.
        block = generator(seed, "rows", worker).standard_normal((count, features))
        block += heterogeneity * shift / math.sqrt(features)
        errors = generator(seed, "label noise", worker).standard_normal(count)
        points.append(block)
        scores.append(block @ weights / np.linalg.norm(weights) + noise * errors)
    return Dataset.from_dense("synthetic", np.concatenate(points), np.concatenate(scores) > 0)
