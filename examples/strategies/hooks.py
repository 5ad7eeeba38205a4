"""torch's communication hooks for DistributedDataParallel, each with torch's SGD beside it."""

from functools import partial

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from experiments.external.strategy import Carrier, Hooked


def torch_allreduce(
    carrier: Carrier,
    momentum: float = 0.0,  # of torch.optim.SGD
    weight_decay: float = 0.0,  # λ, likewise
) -> Hooked:
    """Gradients all-reduced as they are."""
    return Hooked(carrier, allreduce_hook, None, _sgd(momentum, weight_decay))


def torch_fp16(
    carrier: Carrier,
    momentum: float = 0.0,  # of torch.optim.SGD
    weight_decay: float = 0.0,  # λ, likewise
) -> Hooked:
    """Gradients all-reduced in half precision."""
    return Hooked(carrier, fp16_compress_hook, None, _sgd(momentum, weight_decay))


def torch_powersgd(
    carrier: Carrier,
    rank: int = 2,  # of every matrix
    start: int = 2,  # rounds before in which gradients are all-reduced as they are; 2 at least
    momentum: float = 0.0,  # of torch.optim.SGD
    weight_decay: float = 0.0,  # λ, likewise
) -> Hooked:
    """PowerSGD, with error feedback and warm start as torch has them unless told otherwise."""
    state = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=start)
    return Hooked(carrier, powerSGD_hook, state, _sgd(momentum, weight_decay))


def _sgd(momentum: float, weight_decay: float) -> partial[torch.optim.SGD]:
    return partial(torch.optim.SGD, momentum=momentum, weight_decay=weight_decay)
