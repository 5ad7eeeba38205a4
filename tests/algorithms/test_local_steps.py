"""Methods with local steps: against plain loops and torch, at the ends of their options, and by their bits."""

from itertools import pairwise

import pytest
import torch
from local_support import ADAMW, LR, ROUNDS, SEED, START, N, assert_close, gradients, run, states
from reference import compressors as plain
from reference import problem
from reference.local_steps import adamw, local_steps
from reference.local_steps import sgd as plain_sgd

from algorithms.compressors import Identity, ScaledSign, TopK
from algorithms.core.bit_counter import BitCounter
from algorithms.core.channels import dense
from algorithms.core.update_rules import SGD
from algorithms.methods.bases.local_steps import LocalSteps
from algorithms.methods.diloco import diloco
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.sgd import sgd
from algorithms.optim.ddp_hook import compressed
from algorithms.optim.optimizer import CompressedOptimizer
from experiments.cluster.simulated import Simulated


@pytest.mark.parametrize("period", [1, 3, 7])
@pytest.mark.parametrize("inner", ["sgd", "adamw"])
def test_local_sgd_follows_the_reference(period, inner):
    ours, theirs = {"sgd": (SGD(), plain_sgd(LR)), "adamw": (ADAMW, adamw(LR, 0.9, 0.95, 1e-8, 0.1))}[inner]
    expected = local_steps(problem.gradient, START, N, theirs, ROUNDS, period)
    assert_close(run(local_sgd(Identity(), ours, period)), torch.tensor(expected, dtype=torch.float64), 1e-10)


@pytest.mark.parametrize("period", [1, 4])
@pytest.mark.parametrize("compressor", ["identity", "top_2", "scaled_sign"])
def test_diloco_follows_the_reference(period, compressor):
    ours, theirs = {
        "identity": (Identity(), plain.identity),
        "top_2": (TopK(k=2), plain.top_2),
        "scaled_sign": (ScaledSign(), plain.scaled_sign),
    }[compressor]
    inner = adamw(0.01, 0.9, 0.95, 1e-8, 0.1)
    expected = local_steps(problem.gradient, START, N, inner, ROUNDS, period, 0.7, 0.9, theirs, 0.95)
    found = run(diloco(ours, ADAMW, period, outer_lr=0.7, outer_momentum=0.9, decay=0.95), lr=0.01)
    assert_close(found, torch.tensor(expected, dtype=torch.float64), 1e-10)


def test_without_local_steps_local_sgd_is_sgd():
    assert_close(run(local_sgd(Identity(), SGD(), period=1)), run(sgd(Identity(), SGD())), 1e-13)


def test_the_run_s_step_size_is_not_the_outer_update_s():
    """The outer SGD() is x ← x − Δ, not x − αΔ."""
    found = LocalSteps(uplink=dense(), downlink=dense(), update=SGD(), inner=SGD(), period=5)
    assert torch.equal(run(found), run(local_sgd(Identity(), SGD(), period=5)))
    heavy = LocalSteps(uplink=dense(), downlink=dense(), update=SGD(momentum=0.6), inner=SGD(), period=5)
    path = states(heavy)
    x, b = path[0].replica.x, torch.zeros(problem.D, dtype=torch.float64)
    for t in range(5, ROUNDS + 1, 5):
        before = path[t - 1]
        assert before.workers.x is not None
        b = 0.6 * b + x - (before.workers.x - LR * gradients(before)).mean(0)
        x = x - b
        assert_close(path[t].replica.x, x, 1e-12)


def test_diloco_that_averages_is_local_sgd():
    found = run(diloco(Identity(), SGD(), period=5, outer_lr=1.0, outer_momentum=0.0))
    assert torch.equal(found, run(local_sgd(Identity(), SGD(), period=5)))


@pytest.mark.parametrize("period", [1, 6])
def test_workers_of_equal_gradients_are_one(period):
    """Then any number of local steps is the inner update on its own, which is torch's AdamW."""
    x = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.AdamW([x], lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    path = []
    for _ in range(ROUNDS):
        x.grad = torch.tensor(problem.gradient(0, x.tolist()), dtype=torch.float64)
        optimizer.step()
        path.append(x.detach().clone())
    found = run(local_sgd(Identity(), ADAMW, period), alike=True)
    assert_close(found[period - 1 :: period], torch.stack(path)[period - 1 :: period], 1e-12)


def test_the_outer_step_is_torchs_nesterov():
    """Constant differences of 1 give outer steps of 1.33, 1.897, 2.407, …, and in the end η/(1 − μ) = 7."""
    algorithm = diloco(Identity(), SGD(), period=2)
    x, outer = torch.zeros(1, dtype=torch.float64, requires_grad=True), []
    optimizer = torch.optim.SGD([x], lr=0.7, momentum=0.9, nesterov=True)
    for _ in range(60):
        x.grad = torch.ones_like(x)
        optimizer.step()
        outer.append(x.detach().clone())
    cluster = Simulated(algorithm, N, SEED)
    state = cluster.start(torch.zeros(1, dtype=torch.float64))
    steps = [0.0]
    for t in range(1, 121):
        state = cluster.round(torch.full((N, 1), 5.0, dtype=torch.float64), state, 0.1, t)
        if t % 2 == 0:
            steps.append(-state.replica.x.item())
    assert steps[1:] == pytest.approx([-one.item() for one in outer], rel=1e-12)
    taken = [after - before for before, after in pairwise(steps)]
    assert taken[:3] == pytest.approx([1.33, 1.897, 2.4073], rel=1e-4)
    assert taken[-1] == pytest.approx(7, rel=0.02)


def test_workers_move_apart_and_meet_again():
    cluster = Simulated(local_sgd(Identity(), SGD(), period=4), N, SEED)
    state = cluster.start(torch.tensor([START, START], dtype=torch.float64))
    lr = torch.tensor([[0.1], [0.2]], dtype=torch.float64)
    for t in range(1, 9):
        assert state.workers.x is not None
        found = torch.stack([torch.tensor([problem.gradient(i, x.tolist()) for i, x in enumerate(trial)])
                             for trial in state.workers.x]).double()  # fmt: skip
        before, state = state, cluster.round(found, state, lr, t)
        assert state.workers.x is not None
        apart = (state.workers.x - state.replica.x.unsqueeze(-2)).norm(dim=-1)
        if t % 4:
            assert (apart > 1e-3).all()
            assert torch.equal(state.replica.x, before.replica.x)
        else:
            assert not apart.any()


def test_silent_rounds_cost_nothing():
    meter, algorithm = BitCounter(), diloco(TopK(k=2), SGD(), period=5)
    seen = []
    for t in range(1, 16):
        meter.count(algorithm, 10, t, torch.float32)
        seen.append((meter.bits_up, meter.bits_down, meter.payload_bytes))
    assert seen[:4] == [(0, 0, 0)] * 4
    assert seen[4:9] == [(128, 320, 56)] * 5
    assert seen[-1] == (3 * 128, 3 * 320, 3 * 56)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: local_sgd(Identity(), SGD(), period=0), "period=0: must be at least 1"),
        (lambda: diloco(Identity(), SGD(), outer_lr=0.0), "outer_lr=0.0: must be positive"),
        (lambda: diloco(Identity(), SGD(), outer_momentum=1.0), r"outer_momentum=1.0: must lie in \[0, 1\)"),
        (lambda: CompressedOptimizer([torch.zeros(3, requires_grad=True)], "diloco", lr=1), "models of their own"),
        (lambda: compressed([torch.zeros(3, requires_grad=True)], "diloco"), "a step of its own"),
    ],
)
def test_what_cannot_work_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
