"""Methods with a warm-up, or with moments on the workers, against plain loops written without sight of them."""

from functools import partial

import pytest
import torch
from reference import problem
from reference.compressors import scaled_sign, scaled_sign_l2
from reference.frozen_adam import frozen_adam
from reference.methods import direct, error_feedback
from reference.quantized_adam import quantized_adam as plain_quantized_adam
from reference.quantizers import min_max_uint8
from refusals import refusals
from small_support import assert_close, run, states

from algorithms.compressors import Identity, LogQuantize, MinMaxUint8, ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Direct
from algorithms.core.update_rules import SGD
from algorithms.methods.apmsqueeze import apmsqueeze
from algorithms.methods.bases.frozen_adam import warmup_rounds
from algorithms.methods.onebit_adam import onebit_adam
from algorithms.methods.qadam import qadam
from algorithms.methods.quantized_adam import quantized_adam

ROUNDS, LR, BETA2 = 60, 0.01, 0.99
START = [0.1 * (k - 3) for k in range(problem.D)]


def dead_last(i: int, x: list[float]) -> list[float]:
    """The small problem with a last coordinate whose gradient is always zero."""
    return [*problem.gradient(i, x)[:-1], 0.0]


SIGNS, OF_GRADIENTS = partial(error_feedback, scaled_sign_l2), {"signal": "gradient"}
CASES = {
    "onebit_adam": (onebit_adam, ScaledSign("l2"), SIGNS, {}, {}),
    "onebit_adam of gradients": (onebit_adam, ScaledSign("l2"), SIGNS, OF_GRADIENTS, OF_GRADIENTS),
    "qadam": (qadam, MinMaxUint8(), partial(direct, min_max_uint8), {}, {"mask": False, "corrected": True}),
    "apmsqueeze": (apmsqueeze, ScaledSign(), partial(error_feedback, scaled_sign), {}, {"floor": 1e-16}),
}


@pytest.mark.parametrize(("warmup", "decay", "gradient"), [(1, 0.0, dead_last), (13, 0.05, problem.gradient)])
@pytest.mark.parametrize(("method", "compressor", "channel", "options", "theirs"), CASES.values(), ids=CASES)
def test_a_frozen_adam_follows_the_reference(method, compressor, channel, options, theirs, warmup, decay, gradient):
    algorithm = method(compressor, ROUNDS, warmup, beta2=BETA2, weight_decay=decay, **options)
    found = run(algorithm, LR, rounds=ROUNDS, start=START, gradient=gradient)
    expected = frozen_adam(gradient, START, problem.WORKERS, LR, ROUNDS, warmup, channel, BETA2, decay, **theirs)
    assert_close(found, expected)


@pytest.mark.parametrize(
    ("gradient_bits", "weight_bits", "schedule", "weight_decay"),
    [(3, 8, "constant", 0.0), (3, None, "one_minus_theta_over_t", 0.05), (5, 12, "constant", 0.05)],
)
def test_quantized_adam_follows_the_reference(gradient_bits, weight_bits, schedule, weight_decay):
    algorithm = quantized_adam(
        LogQuantize(gradient_bits),
        weight_bits=weight_bits or 8,
        theta=0.99,
        theta_schedule=schedule,
        weight_decay=weight_decay,
        uplink_only=weight_bits is None,
    )
    options = (0.9, 0.99, 1e-8, gradient_bits, weight_bits, schedule, weight_decay)
    server, received = plain_quantized_adam(problem.gradient, START, problem.WORKERS, LR, ROUNDS, *options)
    found = states(algorithm, LR, rounds=ROUNDS, start=START)[1:]
    assert_close(torch.stack([state.replica.x for state in found]), received)
    assert_close(torch.stack([state.server.x for state in found]), server)


@pytest.mark.parametrize(("warmup", "rounds"), [(0.29, 29), (0.07, 7), (0.13, 13), (0.999, 99), (58, 58)])
def test_a_warmup_is_the_share_that_was_written(warmup, rounds):
    assert warmup_rounds(warmup, 100) == rounds


test_nonsense_is_refused = refusals(
    (lambda: onebit_adam(ScaledSign("l2"), 100, 100), "warmup=100: 100 of 100 rounds"),
    (lambda: onebit_adam(ScaledSign("l2"), 100, 1.0), "warmup=1.0: 100 of 100 rounds"),
    (lambda: apmsqueeze(ScaledSign(), 100, 0.001), "warmup=0.001: 0 of 100 rounds"),
    (lambda: qadam(MinMaxUint8(), 100, 0), "warmup=0: 0 of 100 rounds"),
    (lambda: quantized_adam(LogQuantize(), weight_bits=1), "bits=1"),
    (lambda: quantized_adam(LogQuantize(), theta=1.0), "theta=1.0"),
    (lambda: quantized_adam(LogQuantize(), eps=0.0), "eps=0.0"),
    (lambda: Algorithm(Direct(TopK(k=9)), Direct(Identity()), SGD()).check(8), "k=9"),
    (lambda: Algorithm(Direct(Identity()), Direct(TopK(k=9)), SGD()).check(8), "k=9"),
)
