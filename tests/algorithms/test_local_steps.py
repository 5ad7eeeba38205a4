"""Methods with local steps: against plain loops and torch, at the ends of their options, and by their bits."""

import pytest
import torch
from reference import compressors as plain
from reference import problem
from reference.local_steps import adamw, local_steps
from reference.local_steps import sgd as plain_sgd
from small_support import ADAMW, LR, ROUNDS, START, N, assert_close, run

from algorithms.compressors import Identity, ScaledSign, TopK
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import SGD
from algorithms.methods.diloco import diloco
from algorithms.methods.local_sgd import local_sgd
from algorithms.optim.ddp_hook import compressed
from algorithms.optim.optimizer import CompressedOptimizer


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
        (lambda: CompressedOptimizer([torch.zeros(3, requires_grad=True)], "diloco", lr=1), "local models"),
        (lambda: compressed([torch.zeros(3, requires_grad=True)], "diloco"), "makes its own step"),
    ],
)
def test_what_cannot_work_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
