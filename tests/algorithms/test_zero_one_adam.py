"""0/1 Adam: against plain loops, and its schedule."""

from dataclasses import replace

import pytest
import torch
from reference import compressors as plain
from reference import problem
from reference.zero_one_adam import zero_one_adam as plain_zero_one_adam
from refusals import refusals
from small_network import count_bits
from small_support import SEED, START, N, assert_close, gradients, run, states

from algorithms.compressors import Compressor, Identity, ScaledSign, TopK
from algorithms.methods.zero_one_adam import Schedule, zero_one_adam
from experiments.cluster.base import Simulated

ROUNDS, LR = 120, 0.03
SCHEDULES = {
    "long warm-up": (60, 3, 10, 8),
    "few dense rounds": (20, 2, 30, 4),
    "no doubling": (40, 1000, 1000, 16),
    "odd interval": (17, 4, 5, 5),
}
SIGN, SPARSE = (ScaledSign("l2"), plain.scaled_sign_l2), (TopK(k=2), plain.top_2)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize(("ours", "theirs", "weight_decay"), [(*SIGN, 0.1), (*SPARSE, 0.0)], ids=["sign", "top_k"])
def test_it_follows_the_reference(schedule: tuple[int, ...], ours: Compressor, theirs, weight_decay: float) -> None:
    freeze, kappa, stretch, longest = schedule
    lrs = [LR / (1 + t / 40) for t in range(ROUNDS)]
    algorithm = zero_one_adam(ours, ROUNDS, freeze, kappa, stretch, longest, beta2=0.99, weight_decay=weight_decay)
    expected, _ = plain_zero_one_adam(
        problem.gradient, list(START), N, lrs, *schedule, beta2=0.99, weight_decay=weight_decay, compress=theirs
    )
    assert_close(run(algorithm, lrs), expected)


def test_a_coordinate_without_gradient_stays() -> None:
    """Its v is zero, and one bit makes something of it in every message, which would be divided by ε."""
    lrs = [LR] * ROUNDS

    def partly(i: int, x: list[float]) -> list[float]:
        return [0.0 if k == 2 else g for k, g in enumerate(problem.gradient(i, x))]

    found = run(zero_one_adam(ScaledSign("l2"), ROUNDS, 60, 3, 10, 8, beta2=0.99), lrs, gradient=partly)
    assert_close(found, plain_zero_one_adam(partly, list(START), N, lrs, 60, 3, 10, 8, beta2=0.99)[0])
    assert found[:, 2].unique().tolist() == [START[2]]


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_what_crosses_is_what_the_counters_say(schedule: tuple[int, ...]) -> None:
    """Rounds, and so bits, of closed forms against counters that are doubled as they run."""
    rounds = 400
    crossed = plain_zero_one_adam(lambda i, x: [1.0], [0.0], 1, [0.1] * rounds, *schedule)[1]
    freeze, kappa, stretch, longest = schedule
    ours = Schedule(freeze=freeze, kappa=kappa, stretch=stretch, longest=longest)
    letters = ["d" if ours.learns_v(t) else "c" if ours.has_exchange(t) else "." for t in range(1, rounds + 1)]
    assert "".join(letters) == crossed
    meter = count_bits(zero_one_adam(ScaledSign("l2"), rounds, freeze, kappa, stretch, longest), 50, rounds)
    assert meter.bits_up == meter.bits_down == 32 * 50 * crossed.count("d") + (50 + 32) * crossed.count("c")


def test_a_clipped_exchange_moves_x_and_m_alike() -> None:
    algorithm = zero_one_adam(ScaledSign("l2"), ROUNDS, 8, 2, ROUNDS, 1, beta2=0.99)
    before = states(algorithm, [LR] * 12)[-1]
    after = Simulated(replace(algorithm, clip=1e-6), N, SEED).round(gradients(before), before, LR, 13)
    u = (after.replica.x - before.replica.x) * (before.replica.moments[1].sqrt() + 1e-8)
    assert u.norm().item() == pytest.approx(1e-6, rel=1e-2)
    assert after.workers.moments is not None
    torch.testing.assert_close(after.workers.moments[0], (-u / LR).expand(N, -1), rtol=1e-6, atol=0)


def test_rounds_without_a_step_leave_the_models_finite() -> None:
    """Σα is zero where a schedule's step size is: m stays each worker's own, and steps go on from it."""
    lrs = [LR] * 20 + [0.0] * 8 + [LR] * 12
    found = states(zero_one_adam(Identity(), 40, 8, 2, 4, 4), lrs)
    assert all(bool(state.workers.x.isfinite().all()) for state in found if state.workers.x is not None)
    assert torch.equal(found[28].replica.x, found[20].replica.x)
    assert not torch.equal(found[40].replica.x, found[28].replica.x)


test_what_is_no_schedule_is_refused = refusals(
    (lambda: zero_one_adam(ScaledSign("l2"), 100, kappa=0), "kappa=0: must be at least 1"),
    (lambda: zero_one_adam(ScaledSign("l2"), 100, longest=0), "longest=0: must be at least 1"),
    (lambda: zero_one_adam(ScaledSign("l2"), 100, stretch=0), "stretch=0: must be at least 1 round"),
    (lambda: zero_one_adam(ScaledSign("l2"), 100, stretch=-0.5), "stretch=-0.5: must be at least 1 round"),
    (lambda: zero_one_adam(ScaledSign("l2"), 100, warmup=1.0), "the warm-up takes at least one round"),
)
