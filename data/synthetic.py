"""A synthetic problem with options for heterogeneity between workers and for sparsity."""

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le
from pydantic import NonNegativeFloat

from data.dataset import ENTRY, LARGEST_INDEX, Dataset
from data.limits import check_memory
from data.partition import generator, part_size

_CHUNK = 2**20  # entries drawn at once


def synthetic(
    rows: int = 2000,  # of all workers together
    features: Annotated[int, Ge(1), Le(LARGEST_INDEX)] = 50,  # d
    workers: int = 20,  # n; their distributions differ by `heterogeneity`
    heterogeneity: NonNegativeFloat = 0.0,  # 0: all workers share one distribution; larger: they differ more
    noise: NonNegativeFloat = 0.5,  # of the labels
    density: Annotated[float, Gt(0), Le(1)] = 1.0,  # share of a row's features that are not zero
    seed: int = 0,  # of the data
) -> Dataset:
    """N rows of d features in n blocks, block i drawn from worker i's own distribution.

    With h the heterogeneity, and u, v_i, b_i in R^d drawn from N(0, I), row j of worker i is

        x_ij = h b_i / sqrt(d) + z_ij                         z_ij ~ N(0, I)
        y_ij = +1 if <w_i, x_ij> + noise * e_ij > 0 else -1   e_ij ~ N(0, 1)
        w_i  = (u + h v_i) / |u + h v_i|

    At h = 0 all workers share one distribution, in which arctan(noise) / pi of the labels are flipped. As h
    grows the true weights w_i turn to independent directions and the means move apart, by about sqrt(2) h.

    With a density below 1 a row has k = max(1, round(density d)) features. The equations then hold for these alone,
    with w_i scaled to length 1 over them. The other features are zero and take no memory. The columns are split into
    k runs of nearly equal size, and feature l is drawn uniformly from run l. So all columns are about equally
    frequent, unlike words, which differ by orders of magnitude.

    Worker i has rows i m to (i + 1) m - 1, m = floor(N / n), as in a contiguous partition. The N - n m rows left come
    from the last worker's distribution. A worker's first r rows depend on (seed, d, h, noise, density, i) alone.
    Raises DataError if memory does not suffice, and UsageError unless n is in 1 to N.
    """
    size = part_size(rows, workers)
    k = max(1, round(density * features))
    check_memory(
        rows * (k * ENTRY + 9) + 3 * 8 * features,
        f"synthetic data of {rows} rows with {k} features each",
        "give fewer rows or features, or a smaller density",
    )
    columns, values = np.empty((rows, k), np.int32), np.empty((rows, k))
    positive = np.empty(rows, bool)
    edges = np.arange(k + 1) * features // k
    shared = generator(seed, "shared weights").standard_normal(features)
    for worker in range(workers):
        own, shift = generator(seed, "worker weights and mean", worker).standard_normal((2, features))
        own *= heterogeneity
        own += shared
        shift *= heterogeneity
        shift /= math.sqrt(features)
        end = rows if worker == workers - 1 else (worker + 1) * size
        # Rows are drawn in order, one generator for each use, so more rows do not change the earlier ones.
        places, points, errors = (generator(seed, use, worker) for use in ("columns", "rows", "label noise"))
        step = max(1, _CHUNK // k)
        for begin in range(worker * size, end, step):
            block = slice(begin, min(begin + step, end))
            shape = (block.stop - begin, k)
            columns[block] = edges[:-1] + (places.random(shape) * np.diff(edges)).astype(np.int32)
            values[block] = points.standard_normal(shape) + shift[columns[block]]
            weights = own[columns[block]]
            scores = np.einsum("rk,rk->r", values[block], weights) / np.linalg.norm(weights, axis=1)
            positive[block] = scores + noise * errors.standard_normal(len(scores)) > 0
    content = {
        "labels": np.where(positive, np.int8(1), np.int8(-1)),
        "indptr": np.arange(rows + 1) * k,
        "indices": columns.reshape(-1),
        "values": values.reshape(-1),
    }
    return Dataset.from_arrays("synthetic", content, features)
