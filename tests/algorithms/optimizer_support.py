"""Algorithms for training the small network, shared by test_optimizer.py and its ranks."""

from dataclasses import replace

import torch
from small_network import gradients
from small_network import simulate as rounds_of

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
from algorithms.core.algorithm import Algorithm, clip_norm
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
SIZES = (15, 5, 10, 2)  # of the parameter tensors of the network
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


def simulate(algorithm: Algorithm, workers: int, clip: float | None = None) -> torch.Tensor:
    """x after every round [ROUNDS, d] of the simulated cluster on one batch a worker, gradients clipped to `clip`."""
    return rounds_of(algorithm, workers, ROUNDS, gradients=lambda x, n, step: clip_norm(gradients(x, n), clip))
