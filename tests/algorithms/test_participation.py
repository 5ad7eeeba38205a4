"""Rounds that some workers miss: against plain loops, by their bits, and what is refused."""

from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch
from reference import compressors as plain
from reference import methods as ref
from reference import participation as reference
from reference import problem
from refusals import refusals
from small_support import LR, ROUNDS, SEED, START, N, assert_close, run, states

from algorithms.compressors import Identity, RandomK, ScaledSign, Sign, TopK
from algorithms.core.aggregation import SendersMean
from algorithms.core.algorithm import Algorithm, as_dicts, leaves
from algorithms.core.bit_counter import BitCounter
from algorithms.core.channels import Channel, Markov, dense
from algorithms.core.participation import Participation
from algorithms.core.update_rules import SGD, Adam, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.dasha import dasha
from algorithms.methods.diana import diana
from algorithms.methods.diloco import diloco
from algorithms.methods.ef21 import ef21
from algorithms.methods.ef21_p import ef21_p
from algorithms.methods.ef21_sgdm import ef21_sgdm
from algorithms.methods.error_feedback import error_feedback
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.sgd import sgd
from algorithms.methods.signum import signum

PLAN = [(i, 6, 9) for i in range(N)] + [(1, 2, 20), (2, 15, 15)]  # nobody is there in rounds 6 to 9
PRESENT = {
    "coin": ({"chance": 0.4}, reference.coin(SEED, 0.4)),
    "plan": ({"absent": PLAN}, lambda i, t: not any(i == j and a <= t <= b for j, a, b in PLAN)),
}


def some(**settings) -> Participation:
    return Participation(workers=N, seed=SEED, **settings)


def by_the_loop(name: str, present: reference.Present, **late) -> list:
    common = {"rounds": ROUNDS, "present": present, **late}
    if name == "local_sgd":
        return reference.fedavg(problem.gradient, START, N, LR, period=3, **common)
    if name == "ef21":
        c, down, step = plain.top_2, ref.direct(), ref.sgd(LR)
    else:
        c, down, step = plain.scaled_sign, ref.markov(plain.scaled_sign), ref.adam(LR, amsgrad=True)
    return reference.markov(problem.gradient, START, N, c, down, step, **common)


METHODS = {
    "ef21": ef21(TopK(k=2), SGD(), dense_start=False),
    "cd_adam": cd_adam(ScaledSign(), AMSGrad()),
    "local_sgd": local_sgd(Identity(), SGD(), 3),
}


@pytest.mark.parametrize("late", [{}, {1: 3, 3: 6}], ids=["in time", "late"])
@pytest.mark.parametrize("who", PRESENT)
@pytest.mark.parametrize("name", METHODS)
def test_rounds_with_absent_and_late_workers_follow_the_reference(name: str, who: str, late: dict) -> None:
    settings, present = PRESENT[who]
    found = run(METHODS[name], participation=some(**settings, late=[*late.items()]))
    assert_close(found, by_the_loop(name, present, late=late))


OTHERS = [
    sgd(Identity(), SGD()), error_feedback(ScaledSign(), Adam()), signum(Sign(), SGD()), ef21_p(TopK(k=2)),
    diana(RandomK(k=3, unbiased=True), SGD()), dasha(RandomK(k=3, unbiased=True), SGD()),
    ef21_sgdm(TopK(k=2)), diloco(ScaledSign(), AMSGrad(), 4),
]  # fmt: skip


@pytest.mark.parametrize("method", [*METHODS.values(), *OTHERS], ids=str)
def test_an_absent_worker_keeps_its_memory_and_moments(method: Algorithm) -> None:
    found = states(method, participation=some(absent=[(1, 5, 9)]))
    before = zip(leaves(as_dicts(found[4])), leaves(as_dicts(states(method)[4])), strict=True)
    for (name, one), (_, other) in before:  # while nobody is absent, nothing changes
        assert one is other is None or torch.equal(one, other), name
    first, last = ({**as_dicts(state.workers), "x": None} for state in (found[4], found[9]))
    if method.has_local_models:  # local steps go on
        first["moments"] = last["moments"] = {}
    for (name, one), (_, other) in zip(leaves(first), leaves(last), strict=True):
        if one is not None and name != "ids":
            assert torch.equal(one[1], other[1]), name
            assert not torch.equal(one[0], other[0]), name
    for t in range(5, 10):
        if method.has_local_models and method.stages(t):
            assert (found[t].workers.x == found[t].replica.x).all()


@pytest.mark.parametrize(("name", "answers"), [("ef21", 20), ("local_sgd", 4)])
def test_bits_are_the_mean_over_all_workers(name: str, answers: int) -> None:
    """In rounds 6 to 9 nobody sends; EF21's server answers, and local SGD's exchange is left out."""
    method, present, meter = METHODS[name], some(absent=PLAN), BitCounter()
    for t in range(1, 21):
        meter.count(method, 7, t, torch.float64, present)
    rounds = [t for t in range(1, 21) if method.stages(t)]
    messages = sum(PRESENT["plan"][1](i, t) for i in range(N) for t in rounds)
    each = method.uplink.bits(7, 2)
    assert meter.bits_up == Fraction(messages * each, N)
    assert meter.bits_down == answers * 32 * 7
    assert (
        meter.payload_bytes == Fraction(messages * method.uplink.payload_bytes(7, 2, torch.float64), N) + answers * 56
    )


@dataclass(frozen=True)
class Unsaid(Algorithm):
    """A method that says nothing of absent workers."""


@dataclass(frozen=True)
class Other(Markov):
    """A channel that says nothing of absent workers."""


def tried(uplink: Channel, kind: type[Algorithm] = Algorithm, **options: object) -> None:
    some(chance=0.5).check(kind(uplink, dense(), SGD(), **options), ROUNDS)


test_classes_that_do_not_declare_absence_are_refused = refusals(
    (lambda: tried(dense(), Unsaid), "Unsaid needs .* because its class does not set needs_all = ''"),
    (lambda: tried(Other(TopK(k=2))), "its channel Other does not set mean_over"),
    (lambda: tried(Markov(TopK(k=2)), combine=SendersMean()), "increments, and SendersMean"),
)
