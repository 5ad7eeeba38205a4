"""Methods against plain-loop references, at options that make them another method, and what they send."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from reference import compressors as plain
from reference import groups as plain_groups
from reference import methods as ref
from reference import problem
from refusals import refusals
from small_network import count_bits
from small_support import LR, ROUNDS, SEED, START, N, assert_close, natural, run, uniform

from algorithms.compressors import (
    Blocks,
    Chain,
    Identity,
    Int4,
    IntegerMean,
    Integers,
    LogQuantize,
    MinMaxUint8,
    Natural,
    RandomK,
    ScaledSign,
    Sign,
    SignMean,
    TopK,
)
from algorithms.core.aggregation import mean_of, mean_of_stacked
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import ErrorFeedback, dense
from algorithms.core.update_rules import SGD, Adam, AMSGrad
from algorithms.methods.adam import adam
from algorithms.methods.amsgrad import amsgrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.dasha import dasha
from algorithms.methods.diana import diana
from algorithms.methods.distributed_lion import distributed_lion
from algorithms.methods.econtrol import econtrol
from algorithms.methods.ef21 import ef21
from algorithms.methods.ef21_p import ef21_p
from algorithms.methods.ef21_sgdm import ef21_sgdm
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.int_sgd import int_sgd
from algorithms.methods.loco import loco
from algorithms.methods.marina import Coin, marina
from algorithms.methods.naive import naive
from algorithms.methods.qadam import qadam
from algorithms.methods.quantized_adam import quantized_adam
from algorithms.methods.sgd import sgd
from algorithms.methods.signum import signum
from algorithms.utils.seeding import MessageKey

THIRD = RandomK(k=3, unbiased=True)
TOP, SIGN, L2, ALL = (
    (TopK(k=2), plain.top_2),
    (ScaledSign(), plain.scaled_sign),
    (ScaledSign("l2"), plain.scaled_sign_l2),
    (Identity(), plain.identity),
)
COINS = [Coin(0.4, SEED).shows_heads(t) for t in range(1, ROUNDS + 1)]


def each(factory: Callable[..., ref.Channel], *arguments) -> Callable[[int], ref.Channel]:
    """The same channel for every worker."""
    return lambda i: factory(*arguments)


class Case(NamedTuple):
    """A method, and the channels and the step of its reference."""

    ours: Algorithm
    up: Callable[[int], ref.Channel] = each(ref.direct)  # of a worker's number
    down: Callable[[int], ref.Channel] = each(ref.direct)
    step: Callable[[], ref.Step] = partial(ref.sgd, LR)
    lr: float = LR
    decay: float = 0.0  # added to gradients


def third(i: int) -> ref.Drawn:
    """Unbiased random-3 of a worker's message, of the coordinates that ours keeps of ones."""

    def compress(x: list[float], t: int) -> list[float]:
        key = MessageKey(SEED, "up", t, (i,))
        kept = THIRD(torch.ones(1, len(x), dtype=torch.float64), key)[0].tolist()
        assert kept.count(0.0) == len(x) - 3
        return [value * len(x) / 3 if keep else 0.0 for value, keep in zip(x, kept, strict=True)]

    return compress


def without_draw(compress: ref.Compress) -> Callable[[int], ref.Drawn]:
    return lambda i: lambda x, t: compress(x)


ADAM, AMS = (partial(ref.adam, 0.02, amsgrad) for amsgrad in (False, True))
CASES = {
    "sgd": Case(sgd(Identity(), SGD())),
    "adam": Case(adam(Identity(), Adam()), step=ADAM, lr=0.02),
    "amsgrad": Case(amsgrad(Identity(), AMSGrad()), step=AMS, lr=0.02),
    "error feedback that forgets": Case(
        Algorithm(ErrorFeedback(TopK(k=2), decay=0.6), dense(), SGD()), each(ref.error_feedback, plain.top_2, 0.6)
    ),
    "ef21 from a dense start": Case(ef21(TopK(k=2), SGD(), False), *[each(ref.markov, plain.top_2, True)] * 2),
    "ef21 with another compressor down": Case(
        ef21(TopK(k=2), SGD(), False, False, ScaledSign()),
        each(ref.markov, plain.top_2),
        each(ref.markov, plain.scaled_sign),
    ),
    "cd_adam from a dense start": Case(
        cd_adam(TopK(k=2), AMSGrad(), True, True), each(ref.markov, plain.top_2, True), step=AMS, lr=0.02
    ),
}
for name, (ours, theirs) in {"top_2": TOP, "sign": SIGN, "identity": ALL, "l2": L2}.items():
    direct, feedback, markov = (each(kind, theirs) for kind in (ref.direct, ref.error_feedback, ref.markov))
    CASES |= {
        f"naive {name}": Case(naive(ours, SGD()), direct, direct),
        f"naive {name} uplink_only": Case(naive(ours, SGD(), True), direct),
        f"cd_adam {name} uplink_only": Case(cd_adam(ours, AMSGrad(), True), markov, step=AMS, lr=0.02),
        f"error_feedback {name} uplink_only": Case(error_feedback(ours, SGD(), True), feedback),
    }
    if name == "l2":  # without a known contraction constant
        break
    loco_of_both, loco_in_8_bits = each(ref.loco, theirs, 0.83, 7), partial(plain_groups.int4, block=64, top=127)
    CASES |= {
        f"error_feedback {name}": Case(error_feedback(ours, AMSGrad()), feedback, feedback, AMS, 0.02),
        f"cd_adam {name}": Case(cd_adam(ours, AMSGrad()), markov, markov, AMS, 0.02),
        f"ef21_sgdm {name}": Case(
            ef21_sgdm(ours, eta=0.3, weight_decay=0.3),
            lambda i, c=theirs: ref.averaged(ref.markov(c, True), 0.3, False),
            decay=0.3,
        ),
        f"ef21_sgdm {name} double": Case(
            ef21_sgdm(ours, eta=0.3, double=True, dense_start=False),
            lambda i, c=theirs: ref.averaged(ref.markov(c), 0.3, True),
        ),
        f"econtrol {name}": Case(econtrol(ours, SGD(), 0.2), each(ref.econtrol, theirs, 0.2, True)),
        f"econtrol {name} from zero": Case(econtrol(ours, SGD(), 0.2, False), each(ref.econtrol, theirs, 0.2, False)),
        f"ef21_p {name}": Case(ef21_p(ours, 0.3), step=partial(ref.primal, LR, START, theirs), decay=0.3),
        f"loco {name}": Case(loco(ours, SGD(), 0.83, 7), loco_of_both, loco_of_both),
        f"loco {name} in 8 bits": Case(
            loco(ours, SGD(), 0.3, None, True, 8), each(ref.loco, theirs, 0.3, None, loco_in_8_bits)
        ),
    }
for name, ours, theirs, omega in (
    ("natural", Natural(), natural, 1 / 8),
    ("random_3", THIRD, third, problem.D / 3 - 1),
    ("identity", Identity(), without_draw(list), 0.0),
):
    CASES |= {
        f"marina {name}": Case(marina(ours, SGD(), SEED, p=0.4), lambda i, c=theirs: ref.marina(c(i), COINS)),
        **{
            f"dasha {name} {rate} {start}": Case(
                dasha(ours, SGD(), rate, start),
                lambda i, c=theirs, a=1 / (2 * omega + 1) if rate is None else rate, s=start: ref.dasha(c(i), a, s),
            )
            for rate, start in ((None, "dense"), (0.3, "zero"), (None, "share"))
        },
    }
for name, ours, theirs, rate, a in (
    ("natural", Natural(), natural, None, 8 / 9),  # ω = 1/8
    ("natural with a rate", Natural(), natural, 0.25, 0.25),
    ("top_2 with a rate", TopK(k=2), without_draw(plain.top_2), 0.5, 0.5),
):
    CASES |= {
        f"diana {name} along {along}": Case(
            diana(ours, SGD(), rate, along),
            lambda i, c=theirs, a=a, learnt=along == "learnt": ref.diana(c(i), a, learnt),
        )
        for along in ("estimate", "learnt")
    }  # fmt: skip
for tie in (0, 1):
    word = "plus" if tie else "zero"
    CASES |= {
        f"signum, ties {tie}": Case(
            signum(Sign(), SGD(weight_decay=0.3, decoupled=bool(tie)), 0.9 * tie, word),
            each(ref.signs, 0.9 * tie, 0.9 * tie), each(ref.vote, tie), partial(ref.sgd, 0.01, 0.3), 0.01,
        ),
        f"distributed_lion, ties {tie}": Case(
            distributed_lion(Sign(), SGD(weight_decay=0.3), N, "vote", word, 0.8, 0.95),
            each(ref.signs, 0.8, 0.95), each(ref.vote, tie), partial(ref.sgd, 0.01, 0.3), 0.01,
        ),
    }  # fmt: skip
CASES["distributed_lion of the mean"] = Case(
    distributed_lion(Sign(), SGD(), N, "mean", beta1=0.8, beta2=0.95), each(ref.signs, 0.8, 0.95),
    step=partial(ref.sgd, 0.01), lr=0.01,
)  # fmt: skip
for width, largest in ((8, 31), (4, 1)):  # of N = 4 workers
    up, down = ref.int_sgd(N, largest, 0.8, lambda t, i: uniform(MessageKey(SEED, "up", t, (i,))))
    CASES[f"int_sgd in {width} bits"] = Case(int_sgd(Integers(width), SGD(), N, 0.8), up, each(down))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_methods_follow_the_reference(case: Case) -> None:
    gradient = ref.decayed(problem.gradient, case.decay)
    expected = ref.rounds(gradient, START, [case.up(i) for i in range(N)], case.down(0), case.step(), ROUNDS)
    assert_close(run(case.ours, case.lr), expected)


@pytest.mark.parametrize(
    ("compressed", "plain"),
    [
        (marina(THIRD, SGD(), SEED, p=0.4).with_compressor(None), sgd(Identity(), SGD())),
        (dasha(THIRD, SGD()).with_compressor(None), sgd(Identity(), SGD())),
        (marina(THIRD, SGD(), SEED, d=problem.D), marina(THIRD, SGD(), SEED, p=3 / problem.D)),
        (econtrol(TopK(k=2), SGD()), econtrol(TopK(k=2), SGD(), eta=2 / problem.D)),
    ],
)
def test_methods_that_are_another_one(compressed: Algorithm, plain: Algorithm) -> None:
    assert_close(run(compressed), run(plain), 1e-12)


def test_a_coin_is_alike_everywhere_and_fair():
    tossed = [Coin(0.3, 5).shows_heads(t) for t in range(1, 10_001)]
    assert tossed[0]
    assert tossed == [Coin(0.3, 5).shows_heads(t) for t in range(1, 10_001)]
    assert tossed != [Coin(0.3, 6).shows_heads(t) for t in range(1, 10_001)]
    assert abs(sum(tossed) - 3000) < 5 * math.sqrt(10_000 * 0.3 * 0.7)
    assert all(Coin(1e-9, seed).shows_heads(1) for seed in range(3))


@pytest.mark.parametrize(("workers", "dtype"), [(1, torch.float64), (4, torch.float32), (1000, torch.float32)])
def test_every_mean_of_signs_crosses_exactly(workers, dtype):
    means = torch.tensor([2 * plus - workers for plus in range(workers + 1)], dtype=dtype) / workers
    compressor = SignMean(workers)
    assert torch.equal(compressor.decode(compressor.encode(means), len(means)), means)
    assert torch.equal(IntegerMean(workers, 12)(means), means)
    assert torch.equal(Sign(zero=True)(means), means.sign())
    assert torch.equal(Sign()(means), torch.where(means >= 0, 1.0, -1.0).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 7), (5, 33), (2, 20, 68), (3, 17, 1), (40, 100), (1, 300, 3)])
def test_workers_are_added_in_order(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    x[..., 0] = -0.0
    total = x.numpy()[..., 0, :].copy()
    for worker in range(1, shape[-2]):
        total = total + x.numpy()[..., worker, :]
    expected = (total / np.array(shape[-2], total.dtype)).tobytes()
    before = x.clone()
    for found in (mean_of(x.unbind(-2)), mean_of_stacked(x), mean_of_stacked(x.mT.contiguous().mT)):
        assert found.numpy().tobytes() == expected  # the sign of zero too
    assert torch.equal(x, before)


HEADS = sum(COINS[:10])


@pytest.mark.parametrize(
    ("algorithm", "up", "down"),  # over ten rounds of 100 coordinates
    [
        (cd_adam(ScaledSign(), AMSGrad()), 10 * 132, 10 * 132),
        (cd_adam(ScaledSign(), AMSGrad(), uplink_only=True), 10 * 132, 10 * 3200),
        (error_feedback(TopK(ratio=0.05), AMSGrad()), 10 * 64 * 5, 10 * 64 * 5),
        (ef21(TopK(k=2), SGD(), uplink_only=False), 3200 + 9 * 128, 3200 + 9 * 128),
        (marina(THIRD, SGD(), SEED, p=0.4), HEADS * 3200 + (10 - HEADS) * 160, 10 * 3200),
        (dasha(THIRD, SGD(), start="share"), 10 * 160, 10 * 3200),
        (signum(Sign(), SGD(), tie="zero"), 10 * 100, 10 * 200),
        (distributed_lion(Sign(), SGD(), 20, "mean"), 10 * 100, 10 * 500),
        (int_sgd(Integers(), SGD(), 20), 3200 + 9 * 800, 3200 + 9 * 800),
        (qadam(MinMaxUint8(), 10, 4), 4 * 3200 + 6 * 864, 4 * 3200 + 6 * 864),
        (qadam(MinMaxUint8(), 10, 4, uplink_only=True), 4 * 3200 + 6 * 864, 10 * 3200),
        (quantized_adam(Blocks(LogQuantize(3), (30, 70)), weight_bits=8), 10 * 364, 10 * 864),
    ],
)
def test_bits_of_ten_rounds(algorithm, up, down):
    meter = count_bits(algorithm, 100, 10)
    assert (meter.bits_up, meter.bits_down, meter.bits) == (up, down, up + down)


test_what_cannot_work_is_refused = refusals(
    (lambda: ef21(TopK(k=2), SGD(), downlink_compressor=TopK(k=2)), "takes uplink_only=false"),
    (lambda: cd_adam(RandomK(k=2, unbiased=True), AMSGrad()), "needs a contractive compressor"),
    (lambda: ef21(Blocks(Chain(RandomK(k=2, unbiased=True), Int4(8)), (5, 2)), SGD()), "needs a contractive"),
    (lambda: error_feedback(Chain(TopK(k=3), RandomK(k=1, unbiased=True)), SGD()), "needs a contractive"),
    (lambda: error_feedback(Sign(), SGD()), "has no scale, and error feedback needs"),
    (lambda: cd_adam(Blocks(Sign(zero=True), (2, 5)), AMSGrad()), "has no scale, and the Markov sequence needs"),
    (lambda: ef21_p(Sign()), "has no scale"),
    (lambda: ErrorFeedback(TopK(k=2), decay=1.1), r"decay=1.1: must lie in \[0, 1\]"),
    (lambda: ef21_sgdm(TopK(k=2), eta=0.0), r"eta=0.0: must lie in \(0, 1\]"),
    (lambda: econtrol(TopK(k=2), SGD(), eta=float("nan")), "eta=nan: must be finite and not negative"),
    (lambda: econtrol(ScaledSign("l2"), SGD()).check(problem.D), "no known contraction constant"),
    (lambda: loco(TopK(k=2), SGD(), reset=0), "reset=0: a number of rounds"),
    (lambda: loco(TopK(k=2), SGD(), error_bits=4), "error_bits=4: must be 8 or 32"),  # type: ignore
    (lambda: signum(Sign(), SGD(), tie="Zero"), "tie='Zero': must be 'plus' or 'zero'"),  # type: ignore
    (lambda: diana(Natural(), SGD(), along="h"), "along='h': must be 'estimate' or 'learnt'"),  # type: ignore
    (lambda: diana(TopK(k=2), SGD()), "needs an unbiased compressor"),
    (lambda: diana(ScaledSign("l2"), SGD(), rate=0.5), "unless the compressor is contractive and there is a `rate`"),
    (lambda: diana(Natural(), SGD(), rate=1.5), r"rate=1.5: must lie in \[0, 1\]"),
    (lambda: marina(TopK(k=2), SGD(), p=0.5), "MARINA needs an unbiased compressor"),
    (lambda: marina(THIRD, SGD(), p=0.0), r"p=0.0: must lie in \(0, 1\]"),
    (lambda: marina(THIRD, SGD()).check(problem.D), "needs p=, how often the coin shows heads, or d="),
    (lambda: dasha(TopK(k=2), SGD()), "DASHA needs an unbiased compressor"),
    (lambda: dasha(THIRD, SGD(), rate=1.5), r"rate=1.5: must lie in \[0, 1\]"),
    (lambda: signum(TopK(k=2), SGD()), "this method votes on signs"),
    (lambda: signum(Sign(), SGD()).with_compressor(TopK(k=2)), "its step size is for that"),
    (lambda: distributed_lion(Sign(zero=True), SGD(), 3, "mean"), "combine=mean: "),
    (lambda: int_sgd(Integers(), SGD(), 128), "workers=128: 8 bits cannot hold a sum of so many integers"),
    (lambda: Integers(17), "width=17: integers take 2 to 16 bits"),
)
