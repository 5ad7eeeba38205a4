"""Where flags are set in the rows of a tensor."""

import torch
from torch import Tensor


def ragged_indices(flags: Tensor, most: int | None = None) -> Tensor:
    """Where the flags [..., d] are set, in order: int64 [..., most]; None: as many as in any row.

    A row with fewer repeats its first, or has zeros where it has none: `gather_ragged` tells.
    """
    if most is None:
        most = int(flags.sum(-1).max()) if flags.numel() else 0
    order = indices_by_search(flags, most)
    number = flags.sum(-1, keepdim=True)
    first = torch.where(number > 0, order[..., :1], 0)
    return torch.where(torch.arange(most, device=flags.device) < number, order, first)


def gather_ragged(x: Tensor, flags: Tensor, places: Tensor) -> Tensor:
    """x [..., d] at the places that `ragged_indices` gave for the flags; zero in a row without any."""
    return torch.where(flags.any(-1, keepdim=True), x.gather(-1, places), 0)


def indices_of(flags: Tensor, k: int) -> Tensor:
    """Where k flags [..., d] a row are set, in order: int64 [..., k]."""
    if flags.device.type == "cpu":
        return flags.nonzero()[:, -1].view(*flags.shape[:-1], k)
    return indices_by_search(flags, k)


def indices_by_search(flags: Tensor, k: int) -> Tensor:
    """`indices_of` on any device: a GPU would be waited for to know how many `nonzero` finds."""
    count = torch.arange(1, k + 1, dtype=torch.int32, device=flags.device).expand(*flags.shape[:-1], k).contiguous()
    # A row may have fewer than k flags, and an index outside would end the process.
    return torch.searchsorted(running_count(flags), count).clamp(max=flags.shape[-1] - 1)


def running_count(flags: Tensor) -> Tensor:
    """How many of the flags [..., d] are set up to each place, itself included: int32."""
    if flags.device.type == "cpu":
        return flags.cumsum(-1, dtype=torch.int32)
    return running_count_by_one_scan(flags)


def running_count_by_one_scan(flags: Tensor) -> Tensor:
    """`running_count` on any device: a GPU scans each row with one block of threads, but one long row with all."""
    count = flags.flatten().cumsum(0, dtype=torch.int32).view(flags.shape)
    return count - count[..., :1] + flags[..., :1]
