"""Signum and Distributed Lion, and signs without a scale: against plain loops, and what a vote is."""

from functools import partial

import pytest
import small_support
import torch
from reference import problem, votes
from small_support import ROUNDS, START, N, assert_follows

from algorithms.compressors import Sign, SignMean, TopK
from algorithms.core.update_rules import SGD
from algorithms.methods.distributed_lion import distributed_lion
from algorithms.methods.signum import signum
from algorithms.optim.optimizer import CompressedOptimizer

LR = 0.01
TIES = {"plus": 1, "zero": 0}
run = partial(small_support.run, lr=LR)


@pytest.mark.parametrize(
    ("tie", "update", "beta"),
    [("plus", SGD(weight_decay=0.3), 0.9), ("zero", SGD(weight_decay=0.3, decoupled=True), 0.0)],
)
def test_signum_follows_the_reference(beta, update, tie):
    ours, decay = signum(Sign(), update, beta=beta, tie=tie), update.weight_decay
    assert_follows(ours, votes.signum(problem.gradient, START, N, LR, ROUNDS, beta, TIES[tie], decay), LR)


@pytest.mark.parametrize(("combine", "tie"), [("vote", "plus"), ("vote", "zero"), ("mean", "plus")])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_distributed_lion_follows_the_reference(combine, tie, weight_decay):
    assert_follows(
        distributed_lion(Sign(), SGD(weight_decay=weight_decay), N, combine, tie, beta1=0.8, beta2=0.95),
        votes.distributed_lion(problem.gradient, START, N, LR, ROUNDS, 0.8, 0.95, combine, TIES[tie], weight_decay),
        LR,
    )


@pytest.mark.parametrize(("workers", "dtype"), [(1, torch.float64), (4, torch.float32), (1000, torch.float32)])
def test_every_mean_of_signs_crosses_exactly(workers, dtype):
    means = torch.tensor([2 * plus - workers for plus in range(workers + 1)], dtype=dtype) / workers
    compressor = SignMean(workers)
    assert torch.equal(compressor.decode(compressor.encode(means), len(means)), means)
    assert torch.equal(Sign(zero=True)(means), means.sign())
    assert torch.equal(Sign()(means), torch.where(means >= 0, 1.0, -1.0).to(dtype))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: signum(TopK(k=2), SGD()), "a vote is of signs"),
        (lambda: signum(Sign(), SGD(), tie="Zero"), "tie=Zero: plus or zero"),
        (lambda: distributed_lion(Sign(), SGD(), 3, "median"), "combine=median: vote or mean"),
        (lambda: distributed_lion(Sign(), SGD(), 3, "mean", "zero"), "combine=mean: "),
        (lambda: distributed_lion(Sign(zero=True), SGD(), 3, "mean"), "combine=mean: "),
        (lambda: signum(Sign(), SGD()).compressed_by(TopK(k=2)), "its step size is for that"),
        (lambda: signum(Sign(), SGD()).compressed_by(None), "its step size is for that"),
        (lambda: CompressedOptimizer([torch.zeros(3, requires_grad=True)], "distributed_lion", lr=1, workers=3),
         "workers=3: there are 1 ranks"),
    ],
)  # fmt: skip
def test_what_is_no_vote_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
