"""Constants to look numbers up in, on the device of what is looked up."""

from functools import cache

import torch
from torch import Tensor


@cache
def table(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The values [len(values)]; made once, since a GPU is waited for when it gets a new table. Not to be changed."""
    return torch.tensor(values, dtype=dtype, device=device)
