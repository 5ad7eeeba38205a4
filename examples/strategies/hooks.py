"""torch's communication hooks for DistributedDataParallel, each with torch's SGD."""

from functools import partial

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from experiments.external.strategy import Carrier, HookStrategy


def torch_allreduce(
    carrier: Carrier,
    momentum: float = 0.0,  # of torch.optim.SGD
    weight_decay: float = 0.0,  # λ, likewise
) -> HookStrategy:
    """All-reduce gradients uncompressed."""
    return HookStrategy(carrier, allreduce_hook, None, _sgd(momentum, weight_decay))


def torch_fp16(
    carrier: Carrier,
    momentum: float = 0.0,  # of torch.optim.SGD
    weight_decay: float = 0.0,  # λ, likewise
) -> HookStrategy:
    """All-reduce gradients in half precision."""
    return HookStrategy(carrier, fp16_compress_hook, None, _sgd(momentum, weight_decay))


def torch_powersgd(
    carrier: Carrier,
    rank: int = 2,  # of every matrix
    start: int = 2,  # rounds of uncompressed all-reduce at the start; at least 2
    momentum: float = 0.0,  # of torch.optim.SGD
    weight_decay: float = 0.0,  # λ, likewise
) -> HookStrategy:
    """PowerSGD, with torch's default error feedback and warm start."""
    state = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=start)
    return HookStrategy(carrier, powerSGD_hook, state, _sgd(momentum, weight_decay))


def _sgd(momentum: float, weight_decay: float) -> partial[torch.optim.SGD]:
    return partial(torch.optim.SGD, momentum=momentum, weight_decay=weight_decay)
