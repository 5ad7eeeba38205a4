"""EF21-SGDM, EControl, DIANA, EF21-P and LoCo: against plain loops, at the ends of their options, and in use."""

from dataclasses import replace

import pytest
import torch
from reference import compressors as plain
from reference import groups as plain_groups
from reference import problem, quantizers
from reference.diana import diana as plain_diana
from reference.econtrol import econtrol as plain_econtrol
from reference.ef21_p import ef21_p as plain_ef21_p
from reference.ef21_sgdm import ef21_sgdm as plain_ef21_sgdm
from reference.loco import loco as plain_loco
from small_support import LR, ROUNDS, SEED, START, assert_follows, run

from algorithms.comm.sharded_server import cuts
from algorithms.compressors import Blocks, Identity, Natural, Qsgd, ScaledSign, Sign, TopK
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Channel, Direct, ErrorFeedback, Markov, dense
from algorithms.core.update_rules import SGD
from algorithms.methods.diana import diana
from algorithms.methods.econtrol import ErrorControl, econtrol
from algorithms.methods.ef21_p import FromStart, ef21_p
from algorithms.methods.ef21_sgdm import ef21_sgdm
from algorithms.methods.loco import AveragedError, loco
from algorithms.utils.seeding import MessageKey

COMPRESSORS = {
    "identity": (Identity(), plain.identity),
    "scaled_sign": (ScaledSign(), plain.scaled_sign),
    "top_2": (TopK(k=2), plain.top_2),
}
every_compressor = pytest.mark.parametrize("compressor", COMPRESSORS)


@every_compressor
@pytest.mark.parametrize(("double", "dense_start", "weight_decay"), [(False, True, 0.3), (True, False, 0.0)])
def test_ef21_sgdm_follows_the_reference(compressor, double, dense_start, weight_decay):
    ours, theirs = COMPRESSORS[compressor]
    options = {"eta": 0.3, "double": double, "dense_start": dense_start, "weight_decay": weight_decay}
    assert_follows(
        ef21_sgdm(ours, **options),
        plain_ef21_sgdm(problem.gradient, START, problem.WORKERS, theirs, LR, ROUNDS, **options),
    )


@every_compressor
@pytest.mark.parametrize(("dense_start", "eta"), [(False, 0.2), (True, 0.2), (True, 0.0)])
def test_econtrol_follows_the_reference(compressor, dense_start, eta):
    ours, theirs = COMPRESSORS[compressor]
    options = {"eta": eta, "dense_start": dense_start}
    assert_follows(
        econtrol(ours, SGD(), **options),
        plain_econtrol(problem.gradient, START, problem.WORKERS, theirs, LR, ROUNDS, **options),
    )


def test_econtrol_s_gain_is_what_the_compressor_contracts_by():
    expected = run(econtrol(TopK(k=2), SGD(), eta=2 / problem.D))
    assert torch.equal(run(econtrol(TopK(k=2), SGD())), expected)
    with pytest.raises(ValueError, match="no contraction constant"):
        econtrol(ScaledSign("l2"), SGD()).check(problem.D)


def drawn(x: list[float], worker: int, t: int) -> list[float]:
    """Natural compression of a worker's message, with the numbers that its key gives."""
    generator = torch.Generator().manual_seed(MessageKey(SEED, "up", t, (worker,)).seeds().item())
    return quantizers.natural(x, torch.rand(len(x), dtype=torch.float64, generator=generator).tolist())


@pytest.mark.parametrize(
    ("ours", "theirs", "rate"),
    [
        (diana(Natural(), SGD()), drawn, 8 / 9),  # ω = 1/8
        (diana(Natural(), SGD(), rate=0.25), drawn, 0.25),
        (diana(Identity(), SGD()), lambda x, i, t: x, 1.0),
        (diana(TopK(k=2), SGD(), rate=0.5), lambda x, i, t: plain.top_2(x), 0.5),
    ],
    ids=["natural", "natural with a rate", "identity", "contractive with a rate"],
)
def test_diana_follows_the_reference(ours, theirs, rate):
    assert_follows(ours, plain_diana(problem.gradient, START, problem.WORKERS, theirs, LR, ROUNDS, rate))
    along = replace(ours, along="learnt")
    assert_follows(along, plain_diana(problem.gradient, START, problem.WORKERS, theirs, LR, ROUNDS, rate, True))


@every_compressor
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_ef21_p_follows_the_reference(compressor, weight_decay):
    ours, theirs = COMPRESSORS[compressor]
    assert_follows(
        ef21_p(ours, weight_decay=weight_decay),
        plain_ef21_p(problem.gradient, START, problem.WORKERS, theirs, LR, ROUNDS, weight_decay),
    )


@every_compressor
@pytest.mark.parametrize(
    ("dense_down", "beta", "reset", "bits", "kept"),
    [(False, 0.83, 7, 32, list), (True, 0.3, None, 8, lambda e: plain_groups.int4(e, 64, 127))],
)
def test_loco_follows_the_reference(compressor, dense_down, beta, reset, bits, kept):
    ours, theirs = COMPRESSORS[compressor]
    assert_follows(
        loco(ours, SGD(), beta, reset, dense_down, bits),
        plain_loco(problem.gradient, START, problem.WORKERS, theirs, LR, ROUNDS, beta, reset, dense_down, kept),
    )


def test_an_error_in_eight_bits_is_near_the_whole_one():
    """Within half a level, 1/127 of the largest of 64 neighbours."""
    w, e = torch.randn(2, 3, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind()
    channels = (loco(TopK(k=2), SGD(), error_bits=bits).uplink for bits in (32, 8))
    whole, coded = (channel.send(w, e, MessageKey(SEED, "up", 1, (0, 1, 2)))[1] for channel in channels)
    assert isinstance(whole, torch.Tensor)
    assert isinstance(coded, torch.Tensor)
    off = torch.stack([(whole - coded)[..., j : j + 64].abs().amax(-1) for j in range(0, 200, 64)])
    largest = torch.stack([whole[..., j : j + 64].abs().amax(-1) for j in range(0, 200, 64)])
    assert (off > 0).all()
    assert (off <= largest / 127 / 2 * (1 + 1e-12)).all()
    with pytest.raises(ValueError, match="error_bits=4: must be 8 or 32"):
        loco(TopK(k=2), SGD(), error_bits=4)  # type: ignore
    with pytest.raises(ValueError, match="CodedError: may look at the vector as a whole"):
        cuts(loco(TopK(k=2), SGD(), error_bits=8), problem.D, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: diana(TopK(k=2), SGD()),
        lambda: diana(ScaledSign("l2"), SGD(), rate=0.5),
        lambda: diana(Natural(), SGD(), rate=1.5),
        lambda: econtrol(Qsgd(), SGD()),
        lambda: econtrol(TopK(k=2), SGD(), eta=-0.1),
        lambda: ef21_p(Qsgd()),
        lambda: ef21_sgdm(TopK(k=2), eta=0.0),
        lambda: ef21_sgdm(Sign()),
        lambda: ErrorFeedback(TopK(k=2), decay=1.1),
        lambda: AveragedError(TopK(k=2), reset=0),
        lambda: AveragedError(TopK(k=2), beta=-0.1),
    ],
)
def test_what_cannot_work_is_refused(make):
    with pytest.raises(ValueError, match=r"contractive|unbiased|must|at least 1"):
        make()


@pytest.mark.parametrize("zero", [False, True], ids=["±1", "±1 and 0"])
@pytest.mark.parametrize("channel", [ErrorFeedback, Markov, AveragedError, FromStart, ErrorControl])
def test_no_memory_takes_signs_without_a_scale(channel: type[Channel], zero: bool) -> None:
    with pytest.raises(ValueError, match="no scale"):
        channel(Sign(zero=zero))
    with pytest.raises(ValueError, match="no scale"):
        channel(Blocks(Sign(zero=zero), (2, problem.D - 2)))


@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_error_feedback_may_forget(beta):
    """c = C(g + βδ), δ ← g + βδ − c, by hand; β = 0 remembers nothing."""
    algorithm = Algorithm(ErrorFeedback(TopK(k=2), decay=beta), dense(), SGD())
    x, path = list(START), []
    delta = [[0.0] * problem.D for _ in range(problem.WORKERS)]
    for _ in range(ROUNDS):
        total = [0.0] * problem.D
        for i in range(problem.WORKERS):
            w = [g + beta * e for g, e in zip(problem.gradient(i, x), delta[i], strict=True)]
            c = plain.top_2(w)
            delta[i] = [a - b for a, b in zip(w, c, strict=True)]
            total = [a + b for a, b in zip(total, c, strict=True)]
        x = [a - LR * b / problem.WORKERS for a, b in zip(x, total, strict=True)]
        path.append(x)
    assert_follows(algorithm, path)
    if not beta:
        assert torch.equal(run(algorithm), run(Algorithm(Direct(TopK(k=2)), dense(), SGD())))


# What they are for.
