"""A small network and the algorithms it is trained with, shared by test_optimizer.py and the ranks it starts."""

from dataclasses import replace

import torch

from algorithms.compressors import (
    Blocks,
    Identity,
    LogQuantize,
    MinMaxUint8,
    Natural,
    Qsgd,
    RandomK,
    ScaledSign,
    TopK,
)
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.apmsqueeze import apmsqueeze
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.ef21 import ef21
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.naive import naive
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.methods.qadam import qadam
from algorithms.methods.quantized_adam import quantized_adam

ROUNDS = 8
SIZES = (15, 5, 10, 2)  # of the parameter tensors of `model`
ALGORITHMS = {
    "amsgrad": amsgrad(Identity(), AMSGrad()),
    "naive": naive(Qsgd(), SGD(momentum=0.9)),
    "naive natural": naive(Natural(), SGD()),
    "error_feedback": error_feedback(TopK(k=3), SGD()),
    "cd_adam": cd_adam(ScaledSign(), AMSGrad(weight_decay=0.01)),
    "cd_adam layerwise": cd_adam(Blocks(ScaledSign(), SIZES), AMSGrad()),
    "cd_adam uplink_only": cd_adam(ScaledSign(), AMSGrad(), uplink_only=True),
    "ef21": ef21(RandomK(k=4), SGD(), uplink_only=False),
    "onebit_adam": onebit_adam(ScaledSign("l2"), ROUNDS, warmup=3),
    "qadam": qadam(MinMaxUint8(), ROUNDS, warmup=3),
    "apmsqueeze": apmsqueeze(ScaledSign(), ROUNDS, warmup=3),
    "quantized_adam": quantized_adam(LogQuantize()),
    "cd_adam clipped": replace(cd_adam(ScaledSign(), AMSGrad()), clip=0.1),
    "quantized_adam clipped": replace(quantized_adam(LogQuantize()), clip=0.01),
}


def model(seed: int) -> torch.nn.Module:
    """32 parameters in four tensors."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


def loss(net: torch.nn.Module, worker: int) -> torch.Tensor:
    """A worker's own loss."""
    generator = torch.Generator().manual_seed(100 + worker)
    inputs, targets = torch.randn(6, 3, generator=generator), torch.randn(6, 2, generator=generator)
    return (net(inputs) - targets).square().mean()
