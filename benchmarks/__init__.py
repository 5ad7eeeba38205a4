"""Speed and wire measurements, as ratios taken in one run."""

from collections.abc import Callable

import experiments  # noqa: F401 (sets how torch's threads wait, before torch is imported)

# isort: split
import torch
from torch.utils.benchmark import Timer


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """The mean time of a call, after two that are not timed; a GPU is waited for."""
    return Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads()).timeit(repeats).mean
