"""A small network, losses of its own for every rank and step, and what refusals say."""

from collections.abc import Callable

import torch

from algorithms.comm.consistency import Disagreement


def network(dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    """32 parameters in four tensors, the same on all ranks."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).to(dtype)


def loss(net: torch.nn.Module, rank: int, step: int) -> torch.Tensor:
    """Of a rank's own batch."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    inputs, targets = (torch.randn(6, count, generator=generator, dtype=torch.float64) for count in (3, 2))
    kind = next(net.parameters()).dtype
    return (net(inputs.to(kind)) - targets.to(kind)).square().mean()


def refused(act: Callable[[], object]) -> str:
    """What a mistake is answered by."""
    try:
        act()
    except (ValueError, Disagreement) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
