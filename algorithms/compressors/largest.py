"""Which k of many numbers are the largest, on a CPU, with one look at most of them."""

import numpy as np
import torch
from torch import Tensor

MANY = 2**16
"""Numbers in a vector from which on this is faster than sorting out all of them (`benchmarks/step.py`)."""

_SAMPLE = 2**15


def largest(size: Tensor, k: int) -> Tensor:
    """Where the k largest of sizes [..., d] are, in order, of equal ones the lower: int64 [..., k], on the CPU.

    A sample tells a bound that a few more than k exceed; only these are compared with each other. Where the sample
    misleads, all are. A row with NaN may have fewer, some of which are then told twice.
    """
    rows = size.reshape(-1, size.shape[-1]).numpy()
    return torch.from_numpy(np.stack([_largest(row, k) for row in rows])).view(*size.shape[:-1], k)


def _largest(row: np.ndarray, k: int) -> np.ndarray:
    places = _candidates(row, k)
    among = row[places]
    threshold = np.partition(among, -k)[-k]
    kept = among > threshold
    kept[np.flatnonzero(among == threshold)[: k - np.count_nonzero(kept)]] = True
    found = places[kept]
    return found if len(found) == k else np.resize(found if len(found) else places, k)


def _candidates(row: np.ndarray, k: int) -> np.ndarray:
    """Where the k largest are, and some others, in order."""
    sample = row[:: max(len(row) // _SAMPLE, 1)]
    expected = k / len(row) * len(sample)
    rank = int(expected + 4 * expected**0.5) + 2  # four standard deviations beyond what is expected above the k-th
    if rank < len(sample):
        places = np.flatnonzero(row >= np.partition(sample, -rank)[-rank])
        if len(places) >= k:
            return places
    return np.arange(len(row))
