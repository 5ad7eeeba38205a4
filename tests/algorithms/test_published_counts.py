"""What methods send of a language model, and step sizes of data sets, against counts that were made by hand."""

from decimal import Decimal

import pytest
import torch
from small_network import count_bits

from algorithms.compressors import DctTopK, Identity, RandomK, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.update_rules import SGD
from algorithms.methods.dasha import dasha
from algorithms.methods.demo import demo
from algorithms.methods.diana import diana
from algorithms.methods.dion import dion
from algorithms.methods.ef21 import ef21
from algorithms.methods.marina import marina
from algorithms.methods.powersgd import powersgd
from algorithms.methods.sgd import sgd
from algorithms.utils.layout import laid_out

# 4 layers of width 128 with a perceptron of 512, 65 characters, a context of 256, no biases, an untied head.
LAYER = [("attention", (384, 128)), ("projection", (128, 128)), ("up", (512, 128)), ("down", (128, 512))]
LANGUAGE_MODEL = laid_out(
    [
        ("characters", (65, 128), "embedding"),
        ("positions", (256, 128), "embedding"),
        *((f"{layer}.{name}", shape, "matrix") for layer in range(4) for name, shape in LAYER),
        *((f"{number}.norm", (128,), "vector") for number in range(9)),
        ("head", (65, 128), "head"),
    ]
)
D = 836_992


def bits_up(algorithm: Algorithm) -> int:
    """What a worker sends in round 1, in all stages; the same is received of a low rank."""
    algorithm.check(D)
    return count_bits(algorithm, D, 1).bits_up


@pytest.mark.parametrize(
    ("roles", "rank", "floats"),
    [
        *(("matrix", rank, floats) for rank, floats in ((1, 58_752), (4, 83_328), (8, 116_096), (32, 312_704))),
        *(("all", rank, floats) for rank, floats in ((1, 10_114), (4, 37_000), (8, 72_848), (32, 287_936))),
    ],
)
def test_powersgd_s_floats(roles, rank, floats):
    assert bits_up(powersgd(Identity(), LANGUAGE_MODEL, rank=rank, roles=roles)) == 32 * floats


@pytest.mark.parametrize(("fraction", "floats"), [(1 / 4, 312_704), (1 / 16, 116_096)])
def test_dion_s_floats(fraction, floats):
    assert bits_up(dion(Identity(), LANGUAGE_MODEL, fraction=fraction)) == 32 * floats


def test_dion_s_fraction_is_the_decimal_number_that_was_written():
    [matrix] = layout = laid_out([("x", (100, 100), "matrix")])
    assert dion(Identity(), layout, fraction=0.07).rank_of(matrix) == 7


def test_demo_s_entries():
    """32 of every chunk; indices of 12 bits in squares of 64, 10 where 65 has 13 for a divisor, 6 in vectors."""
    chunks = {(64, 64): 192 + 8, (13, 64): 2 * 10, (64, 1): 9 * 2}
    assert 32 * sum(chunks.values()) == 7_616
    width = {(64, 64): 12, (13, 64): 10, (64, 1): 6}
    assert bits_up(demo(DctTopK(32), LANGUAGE_MODEL)) == sum(32 * (32 + width[one]) * chunks[one] for one in chunks)
    codec = demo(DctTopK(32), LANGUAGE_MODEL).uplink.codec(1)
    assert codec.sent_mask(codec.encode(torch.zeros(D)), D).sum() == 7_616


# λ = 0.1, 20 workers in file order: d, L, L̃ and by theory, of k = max(1, ⌊0.016d⌋) coordinates, the step sizes of
# gradient descent, EF21, MARINA, DASHA by its code and by its paper, and DIANA, as they were printed.
STEP_SIZES = {
    "a9a": (123, 1, 1.7719, 1.7731, "5.6e-1 2.30e-3 1.99e-2 1.01e-2 3.6e-3 1.7e-4"),
    "mushrooms": (112, 1, 2.7866, 3.4934, "3.6e-1 1.28e-3 1.12e-2 5.7e-3 2.0e-3 1.2e-4"),
    "phishing": (68, 1, 0.3626, 0.3661, "2.8e0 2.02e-2 1.71e-1 8.8e-2 3.2e-2 1.9e-3"),
    "w8a": (300, 4, 0.8611, 1.0160, "1.16e0 6.59e-3 5.66e-2 2.9e-2 1.0e-2 7.1e-4"),
}


@pytest.mark.parametrize("name", STEP_SIZES)
def test_step_sizes_by_theory(name):
    """Within one of the last digit that was printed."""
    d, k, smoothness, of_workers, printed = STEP_SIZES[name]
    assert TopK().count(d) == k
    draw = RandomK(k=k, unbiased=True)
    algorithms = (
        sgd(Identity(), SGD()),
        ef21(TopK(), SGD()),
        marina(draw, SGD(), d=d),
        dasha(draw, SGD()),
        dasha(draw, SGD(), form="paper"),
        diana(draw, SGD()),
    )
    for algorithm, number in zip(algorithms, map(Decimal, printed.split()), strict=True):
        unit = float(Decimal(1).scaleb(int(number.as_tuple().exponent)))
        assert algorithm.step_size(smoothness, of_workers, 20, d) == pytest.approx(float(number), abs=unit)
