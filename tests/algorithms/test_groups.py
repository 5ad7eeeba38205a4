"""Groups of workers: against plain loops in which a group is a worker, and by the bits of both levels."""

from collections.abc import Callable

import pytest
from reference import compressors as plain
from reference import methods as ref
from reference import participation, problem
from reference.local_steps import adamw, local_steps
from small_network import count_bits
from small_support import ADAMW, LR, ROUNDS, SEED, START, N, assert_close, natural, row_gradient, train

from algorithms.compressors import Natural, ScaledSign
from algorithms.core.algorithm import Algorithm
from algorithms.core.participation import Participation
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.dasha_mvr import dasha_mvr
from algorithms.methods.diloco import diloco

CLIP = 0.5
CD_ADAM = cd_adam(ScaledSign(), AMSGrad())


def counting(gradient: Callable) -> Callable:
    """The gradient of a worker, whose n-th call is that of round n."""
    calls: dict[int, int] = {}

    def of_round(g: int, x: list[float]) -> list[float]:
        calls[g] = calls.get(g, 0) + 1
        return gradient(g, x, calls[g])

    return of_round


def plain_cd_adam(gradient: Callable, groups: int) -> list:
    uplinks = [ref.markov(plain.scaled_sign) for _ in range(groups)]
    down, step = ref.markov(plain.scaled_sign), ref.adam(LR, amsgrad=True)
    return ref.rounds(counting(gradient), START, uplinks, down, step, ROUNDS)


def plain_diloco(gradient: Callable, groups: int) -> list:
    inner, sign = adamw(LR, 0.9, 0.95, 1e-8, 0.1), plain.scaled_sign
    return local_steps(counting(gradient), START, groups, inner, ROUNDS, 4, 0.7, 0.9, sign, 0.95)


def plain_dasha_mvr(gradient: Callable, groups: int) -> list:
    uplinks = [ref.dasha(natural(g), 0.8, "dense") for g in range(groups)]
    return ref.rounds(ref.variance_reduced(gradient, 0.3), START, uplinks, ref.direct(), ref.sgd(LR), ROUNDS)


@pytest.mark.parametrize("size", [1, 2, N])
@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (CD_ADAM, plain_cd_adam),
        (diloco(ScaledSign(), ADAMW, 4, outer_lr=0.7, outer_momentum=0.9, decay=0.95), plain_diloco),
        (dasha_mvr(Natural(), SGD(), 0.3), plain_dasha_mvr),
    ],
    ids=["cd_adam", "diloco", "dasha_mvr"],
)
def test_a_group_is_a_worker_with_the_mean_gradient(algorithm: Algorithm, expected: Callable, size: int) -> None:
    path, meter = train(algorithm, clip=CLIP, group_size=size)
    assert_close(path, expected(problem.of_groups(row_gradient, size, CLIP), N // size))
    outside = count_bits(algorithm, problem.D, ROUNDS)
    assert (meter.bits_up, meter.bits_down) == (outside.bits_up, outside.bits_down)
    averagings = ROUNDS * (2 if algorithm.looks_back else 1)
    assert getattr(meter, "bits_inside", 0) == (size > 1) * averagings * (32 + 32) * problem.D


def test_a_group_is_absent_as_a_whole() -> None:
    coin, gradient = Participation(workers=2, seed=SEED, chance=0.4), problem.of_groups(problem.gradient, 2, CLIP)
    sign, step = plain.scaled_sign, ref.adam(LR, amsgrad=True)
    present = participation.coin(SEED, 0.4)
    expected = participation.markov(gradient, START, 2, sign, ref.markov(sign), step, ROUNDS, present)
    path, meter = train(CD_ADAM, lambda i, x, t: problem.gradient(i, x), CLIP, group_size=2, participation=coin)
    assert_close(path, expected)
    sent = sum(present(g, t) for g in range(2) for t in range(1, ROUNDS + 1))
    assert meter.bits_up == sent * (problem.D + 32) / 2
