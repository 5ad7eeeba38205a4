"""0/1 Adam: against plain loops, its schedule, and what it is at the ends of its options."""

import pytest
import torch
from local_support import SEED, START, N, assert_close, gradients, run
from reference import compressors as plain
from reference import problem
from reference.zero_one_adam import zero_one_adam as plain_zero_one_adam

from algorithms.channels import dense
from algorithms.compressors import Compressor, Identity, ScaledSign, TopK
from algorithms.meter import Meter
from algorithms.methods.zero_one_adam import Schedule, zero_one_adam
from algorithms.protocol import Algorithm
from algorithms.updates import Adam
from experiments.cluster.simulated import Simulated

ROUNDS, LR = 120, 0.03
SCHEDULES = {
    "long warm-up": (60, 3, 10, 8),
    "few dense rounds": (20, 2, 30, 4),
    "no doubling": (40, 1000, 1000, 16),
    "odd interval": (17, 4, 5, 5),
}
SIGN, SPARSE = (ScaledSign("l2"), plain.scaled_sign_l2), (TopK(k=2), plain.top_2)


def path(algorithm: Algorithm, lrs: list[float]) -> torch.Tensor:
    """The common x after each round."""
    cluster = Simulated(algorithm, N, SEED)
    state, found = cluster.start(torch.tensor(START, dtype=torch.float64)), []
    for t, lr in enumerate(lrs, 1):
        state = cluster.round(gradients(state), state, lr, t)
        found.append(state.replica.x)
    return torch.stack(found)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize(("ours", "theirs"), [SIGN, SPARSE], ids=["sign", "top_k"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_follows_the_reference(schedule: tuple[int, ...], ours: Compressor, theirs, weight_decay: float) -> None:
    freeze, kappa, stretch, longest = schedule
    lrs = [LR / (1 + t / 40) for t in range(ROUNDS)]
    found = path(
        zero_one_adam(ours, ROUNDS, freeze, kappa, stretch, longest, beta2=0.99, weight_decay=weight_decay), lrs
    )
    expected, crossed = plain_zero_one_adam(
        problem.gradient, list(START), N, lrs, *schedule, beta2=0.99, weight_decay=weight_decay, compress=theirs
    )
    assert_close(found, torch.tensor(expected, dtype=torch.float64), 1e-10)
    assert "c" in crossed[freeze:]  # an exchange after local steps is among what was compared


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_what_crosses_is_what_the_counters_say(schedule: tuple[int, ...]) -> None:
    """Rounds, and so bits, of closed forms against counters that are doubled as they run."""
    rounds = 400
    crossed = plain_zero_one_adam(lambda i, x: [1.0], [0.0], 1, [0.1] * rounds, *schedule)[1]
    freeze, kappa, stretch, longest = schedule
    ours = Schedule(freeze=freeze, kappa=kappa, stretch=stretch, longest=longest)
    letters = ["d" if ours.learns(t) else "c" if ours.exchanges(t) else "." for t in range(1, rounds + 1)]
    assert "".join(letters) == crossed
    meter, algorithm = Meter(), zero_one_adam(ScaledSign("l2"), rounds, freeze, kappa, stretch, longest)
    for t in range(1, rounds + 1):
        meter.count(algorithm, 50, t, torch.float32)
    assert meter.bits_up == meter.bits_down == 32 * 50 * crossed.count("d") + (50 + 32) * crossed.count("c")


def test_while_every_round_is_dense_it_is_adam() -> None:
    adam = Algorithm(dense(), dense(), Adam(form="uncorrected", weight_decay=0.1, decoupled=True))
    dense_alone = zero_one_adam(ScaledSign("l2"), ROUNDS, 60, kappa=60, beta2=0.99, weight_decay=0.1)
    assert torch.equal(path(dense_alone, [LR] * 60), path(adam, [LR] * 60))


def test_uncompressed_with_an_exchange_a_round_it_is_adam_under_a_frozen_second_moment() -> None:
    """m after an exchange is −z/α = mean_i m_i, so that the rounds go on as if m had never been apart."""
    found = path(zero_one_adam(Identity(), ROUNDS, 40, kappa=40, stretch=ROUNDS, beta2=0.99), [LR] * ROUNDS)
    x, m, v = torch.tensor(START, dtype=torch.float64), torch.zeros(problem.D), torch.zeros(problem.D)
    for t in range(1, ROUNDS + 1):
        g = torch.tensor([problem.gradient(i, x.tolist()) for i in range(N)], dtype=torch.float64).mean(0)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g if t <= 40 else v
        x = x - LR * m / (v.sqrt() + 1e-8)
        assert_close(found[t - 1], x, 1e-10)


def test_workers_agree_after_an_exchange_and_part_between() -> None:
    cluster = Simulated(zero_one_adam(ScaledSign("l2"), 40, 8, kappa=2, stretch=4, longest=4), N, SEED)
    state, apart = cluster.start(torch.tensor(START, dtype=torch.float64)), []
    for t in range(1, 41):
        state = cluster.round(gradients(state), state, LR, t)
        assert state.workers.x is not None
        apart.append(bool((state.workers.x != state.replica.x).any()))
    assert apart == [t > 12 and t % (2 if t <= 16 else 4) != 0 for t in range(1, 41)]


def test_it_learns() -> None:
    above, below = (
        sum(problem.loss(i, x) for i in range(N)) / N
        for x in (START, run(zero_one_adam(ScaledSign("l2"), 60, 30, 8, 10, 4), LR)[-1].tolist())
    )
    best = sum(problem.loss(i, run(Algorithm(dense(), dense(), Adam()), LR)[-1].tolist()) for i in range(N)) / N
    assert above - below > 0.5 * (above - best)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kappa": 0}, "kappa=0: must be at least 1"),
        ({"longest": 0}, "longest=0: must be at least 1"),
        ({"stretch": 0}, "stretch=0: must be at least 1"),
        ({"warmup": 1.0}, "the warm-up takes at least one round"),
    ],
)
def test_what_is_no_schedule_is_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        zero_one_adam(ScaledSign("l2"), 100, **options)  # pyright: ignore[reportArgumentType]
