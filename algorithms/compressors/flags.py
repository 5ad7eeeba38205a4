"""Indices of set flags in the rows of a tensor."""

import torch
from torch import Tensor


def ragged_indices(flags: Tensor, most: int | None = None) -> Tensor:
    """Return the indices of set flags [..., d], in order: int64 [..., most]. most=None: the largest count of a row.

    A row with fewer flags repeats its first index. A row without flags has zeros; see `gather_ragged`.
    """
    if most is None:
        most = int(flags.sum(-1).max()) if flags.numel() else 0
    order = indices_by_search(flags, most)
    number = flags.sum(-1, keepdim=True)
    first = torch.where(number > 0, order[..., :1], 0)
    return torch.where(torch.arange(most, device=flags.device) < number, order, first)


def gather_ragged(x: Tensor, flags: Tensor, places: Tensor) -> Tensor:
    """Gather x [..., d] at the places from `ragged_indices`; zeros in a row without flags."""
    return torch.where(flags.any(-1, keepdim=True), x.gather(-1, places), 0)


def indices_of(flags: Tensor, k: int) -> Tensor:
    """Return the indices of k set flags [..., d] per row, in order: int64 [..., k]."""
    if flags.device.type == "cpu":
        return flags.nonzero()[:, -1].view(*flags.shape[:-1], k)
    return indices_by_search(flags, k)


def indices_by_search(flags: Tensor, k: int) -> Tensor:
    """`indices_of` on any device. `nonzero` would wait for the GPU."""
    count = torch.arange(1, k + 1, dtype=torch.int32, device=flags.device).expand(*flags.shape[:-1], k).contiguous()
    # A row may have fewer than k flags, and an index outside would end the process.
    return torch.searchsorted(running_count(flags), count).clamp(max=flags.shape[-1] - 1)


def running_count(flags: Tensor) -> Tensor:
    """Count the set flags [..., d] up to each place, itself included: int32."""
    if flags.device.type == "cpu":
        return flags.cumsum(-1, dtype=torch.int32)
    return running_count_by_one_scan(flags)


def running_count_by_one_scan(flags: Tensor) -> Tensor:
    """`running_count` on any device: a GPU scans each row with one block of threads, but one long row with all."""
    count = flags.flatten().cumsum(0, dtype=torch.int32).view(flags.shape)
    return count - count[..., :1] + flags[..., :1]
