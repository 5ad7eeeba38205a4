"""MARINA and DASHA: against plain loops, at the ends of their options, by their bits, and in use."""

import math

import pytest
import torch
from reference import problem, quantizers
from reference.marina import dasha as plain_dasha
from reference.marina import marina as plain_marina
from small_support import LR, ROUNDS, SEED, START, assert_close, assert_follows, run

from algorithms.compressors import Identity, Natural, RandomK, TopK
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import SGD
from algorithms.methods.dasha import dasha, dasha_step_size
from algorithms.methods.diana import diana, diana_step_size
from algorithms.methods.marina import Coin, marina, marina_step_size
from algorithms.methods.sgd import sgd
from algorithms.utils.seeding import MessageKey

THIRD = RandomK(k=3, unbiased=True)


def drawn(x: list[float], worker: int, t: int) -> list[float]:
    """Natural compression of a worker's message, with the numbers that its key gives."""
    generator = torch.Generator().manual_seed(MessageKey(SEED, "up", t, (worker,)).seeds().item())
    return quantizers.natural(x, torch.rand(len(x), dtype=torch.float64, generator=generator).tolist())


def sampled(x: list[float], worker: int, t: int) -> list[float]:
    """Unbiased random-3 of a worker's message, of the coordinates that ours keeps of ones."""
    key = MessageKey(SEED, "up", t, (worker,))
    kept = THIRD(torch.ones(1, len(x), dtype=torch.float64), key)[0].tolist()
    assert kept.count(0.0) == len(x) - 3
    return [value * len(x) / 3 if keep else 0.0 for value, keep in zip(x, kept, strict=True)]


COMPRESSORS = {
    "natural": (Natural(), drawn, 1 / 8),
    "random_3": (THIRD, sampled, problem.D / 3 - 1),
    "identity": (Identity(), lambda x, i, t: x, 0.0),
}
every_compressor = pytest.mark.parametrize(
    ("ours", "theirs", "omega"), list(COMPRESSORS.values()), ids=list(COMPRESSORS)
)


def coins(p: float) -> list[bool]:
    coin = Coin(p, SEED)
    return [coin.at(t) for t in range(1, ROUNDS + 1)]


@every_compressor
@pytest.mark.parametrize("p", [0.05, 0.4])
def test_marina_follows_the_reference(ours, theirs, omega, p):
    expected = plain_marina(problem.gradient, START, problem.WORKERS, theirs, LR, coins(p))
    assert_follows(marina(ours, SGD(), SEED, p=p), expected)


@every_compressor
def test_marina_s_chance_is_that_of_its_authors_code(ours, theirs, omega):
    expected = run(marina(ours, SGD(), SEED, p=1 / (1 + omega)))
    assert torch.equal(run(marina(ours, SGD(), SEED, d=problem.D)), expected)


@every_compressor
@pytest.mark.parametrize(("rate", "start"), [(None, "dense"), (0.3, "zero"), (None, "share")])
def test_dasha_follows_the_reference(ours, theirs, omega, rate, start):
    a = 1 / (2 * omega + 1) if rate is None else rate
    expected = plain_dasha(problem.gradient, START, problem.WORKERS, theirs, LR, ROUNDS, a, start)
    assert_follows(dasha(ours, SGD(), rate, start), expected)


def test_a_coin_is_alike_everywhere_and_fair():
    tossed = [Coin(0.3, 5).at(t) for t in range(1, 10_001)]
    assert tossed[0]
    assert tossed == [Coin(0.3, 5).at(t) for t in range(1, 10_001)]
    assert tossed != [Coin(0.3, 6).at(t) for t in range(1, 10_001)]
    assert abs(sum(tossed) - 3000) < 5 * math.sqrt(10_000 * 0.3 * 0.7)
    assert all(Coin(1.0, 5).at(t) for t in range(1, 1000))


def test_bits_are_those_of_the_coin():
    meter, d = BitCounter(), problem.D
    algorithm = marina(THIRD, SGD(), SEED, p=0.4)
    for t in range(1, ROUNDS + 1):
        meter.count(algorithm, d, t, torch.float64)
    heads = sum(coins(0.4))
    assert 10 < heads < 40
    assert meter.bits_up == heads * 32 * d + (ROUNDS - heads) * (32 * 3 + 64)
    assert meter.bits_down == ROUNDS * 32 * d


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: marina(TopK(k=2), SGD(), p=0.5), "MARINA needs an unbiased compressor"),
        (lambda: dasha(TopK(k=2), SGD()), "DASHA needs an unbiased compressor"),
        (lambda: marina(THIRD, SGD(), p=0.0), r"p=0.0: must lie in \(0, 1\]"),
        (lambda: marina(THIRD, SGD()).check(problem.D), "needs p=, how often the coin shows heads, or d="),
        (lambda: dasha(THIRD, SGD(), form="papre"), "form='papre': must be 'code' or 'paper'"),  # type: ignore
        (lambda: dasha(THIRD, SGD(), start="idle"), "start='idle': must be one of dense, zero, share"),  # type: ignore
        (lambda: dasha(THIRD, SGD(), rate=1.5), r"rate=1.5: must lie in \[0, 1\]"),
    ],
)
def test_what_cannot_work_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


# Of the published values of L and L̃ on phishing with one coordinate of 68 and 20 workers.
L, L_TILDE, OMEGA, N = 0.3626, 0.3661, 67.0, 20


def test_step_sizes_are_those_of_theory():
    assert marina_step_size(L, L_TILDE, OMEGA, 1 / 68, N) == pytest.approx(1.71e-1, rel=5e-3)
    assert dasha_step_size(L, L_TILDE, OMEGA, N) == pytest.approx(8.8e-2, rel=5e-3)
    assert dasha_step_size(L, L_TILDE, OMEGA, N, "paper") == pytest.approx(3.2e-2, rel=2e-2)
    assert diana_step_size(L, OMEGA, N) == pytest.approx(1.9e-3, rel=1e-2)
    one = RandomK(k=1, unbiased=True)
    for algorithm, expected in (
        (marina(one, SGD(), d=68), marina_step_size(L, L_TILDE, OMEGA, 1 / 68, N)),
        (dasha(one, SGD(), form="paper"), dasha_step_size(L, L_TILDE, OMEGA, N, "paper")),
        (diana(one, SGD()), diana_step_size(L, OMEGA, N)),
    ):
        assert algorithm.step_size(L, L_TILDE, N, 68) == pytest.approx(expected, rel=1e-12)
    assert marina_step_size(L, L_TILDE, 0.0, 1.0, N) == dasha_step_size(L, L_TILDE, 0.0, N) == 1 / L


# What they are for.


def test_a_group_may_cross_uncompressed():
    """As parameter groups of an optimizer ask for; it is gradient descent, bit for bit."""
    expected = run(sgd(Identity(), SGD()))
    assert torch.equal(run(marina(THIRD, SGD(), SEED, p=0.4).compressed_by(None)), expected)
    assert_close(run(dasha(THIRD, SGD()).compressed_by(None)), expected, 1e-13)
