"""LAMB and 1-bit LAMB: against plain loops, and at the ends of their options."""

import math

import pytest
import small_support
from reference import compressors as plain
from reference import matrices as problem
from reference.lamb import onebit_lamb as plain_onebit_lamb
from small_support import assert_close
from torch import Tensor

from algorithms.compressors import Compressor, Identity, ScaledSign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.methods.lamb import lamb
from algorithms.methods.onebit_lamb import onebit_lamb
from algorithms.utils.layout import laid_out

ROUNDS, LR = 60, 0.02
LAYOUT = laid_out(problem.TENSORS)
SIZES = [math.prod(shape) for _, shape, _ in problem.TENSORS]

BIAS = LAYOUT[2]
DEAD = {1, *range(BIAS.offset, BIAS.offset + BIAS.size)}
"""Coordinates that `partly` gives no gradient: one of the first tensor, and all of the third."""


def partly(i: int, x: list[float]) -> list[float]:
    return [0.0 if k in DEAD else g for k, g in enumerate(problem.gradient(i, x))]


def run(algorithm: Algorithm, lr: float = LR, **options) -> Tensor:
    """x after each round [60, d]."""
    return small_support.run(algorithm, lr, problem, rounds=ROUNDS, **options)


def expected(
    warmup: int, compress=plain.identity, start: list[float] = problem.START, lr: float = LR,
    gradient=problem.gradient, **options: float,
) -> list[list[float]]:  # fmt: skip
    return plain_onebit_lamb(gradient, list(start), problem.WORKERS, lr, ROUNDS, warmup, SIZES, compress, **options)


@pytest.mark.parametrize(("weight_decay", "zeros"), [(0.1, False), (0.0, True)])
def test_lamb_follows_the_reference(weight_decay: float, zeros: bool) -> None:
    start = [0.0] * problem.D if zeros else problem.START
    found = run(lamb(Identity(), LAYOUT, weight_decay=weight_decay), start=start)
    assert_close(found, expected(ROUNDS, start=start, weight_decay=weight_decay))


@pytest.mark.parametrize(("warmup", "weight_decay"), [(5, 0.0), (20, 0.1)])
@pytest.mark.parametrize(
    ("compressor", "theirs"),
    [(Identity(), plain.identity), (ScaledSign("l2"), plain.scaled_sign_l2), (TopK(k=2), plain.top_2)],
    ids=["identity", "scaled_sign", "top_k"],
)
def test_onebit_lamb_follows_the_reference(compressor: Compressor, theirs, warmup: int, weight_decay: float) -> None:
    found = run(onebit_lamb(compressor, ROUNDS, LAYOUT, warmup, beta2=0.99, weight_decay=weight_decay))
    assert_close(found, expected(warmup, theirs, beta2=0.99, weight_decay=weight_decay))


ZEROS, SIGN = [0.0] * problem.D, (ScaledSign("l2"), plain.scaled_sign_l2)
EDGES = {  # warm-up, compressor, step size, gradient, start, and options of both
    "ratios at their least": (ROUNDS, None, LR, problem.gradient, [1e-3 * a for a in problem.START], {}),
    "ratios at their most": (ROUNDS, None, LR, problem.gradient, [1e2 * a for a in problem.START], {}),
    # After so short a warm-up, with such steps, factors reach ½ and 4, and change by a tenth a round in between.
    "factors at their bounds": (4, SIGN, 0.1, problem.gradient, problem.START, {"beta2": 0.8}),
    "such factors with decay": (4, SIGN, 0.1, problem.gradient, problem.START, {"beta2": 0.8, "weight_decay": 0.1}),
    # Where v is zero one bit makes something of every coordinate; σ is 1 for a tensor without momentum.
    "no gradient": (20, SIGN, LR, partly, problem.START, {"beta2": 0.99}),
    "no gradient but decay": (20, SIGN, LR, partly, problem.START, {"beta2": 0.99, "weight_decay": 0.1}),
    "a ratio of one is not averaged": (5, SIGN, LR, problem.gradient, ZEROS, {"beta2": 0.99}),
}


@pytest.mark.parametrize(("warmup", "pair", "lr", "gradient", "start", "options"), EDGES.values(), ids=EDGES)
def test_the_ends_of_its_ranges_follow_the_reference(warmup, pair, lr, gradient, start, options) -> None:
    ours, theirs = pair or (Identity(), plain.identity)
    algorithm = onebit_lamb(ours, ROUNDS, LAYOUT, warmup, **options) if pair else lamb(ours, LAYOUT)
    found = run(algorithm, lr, gradient=gradient, start=start)
    assert_close(found, expected(warmup, theirs, start, lr, gradient, **options))


def test_a_tensor_of_zeros_without_gradient_stays_at_zero() -> None:
    """Its P and U are zero, and ‖P‖/‖U‖ is no number."""
    start = [0.0 if k in DEAD else a for k, a in enumerate(problem.START)]
    found = run(onebit_lamb(ScaledSign("l2"), ROUNDS, LAYOUT, 5, weight_decay=0.1), start=start, gradient=partly)
    assert found.isfinite().all()
    assert not BIAS.view(found).any()
