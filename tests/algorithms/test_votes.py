"""Signum and Distributed Lion, and signs without a scale: against plain loops, and what a vote is."""

from dataclasses import replace
from functools import partial

import pytest
import small_support
import torch
from reference import problem, votes
from small_support import ROUNDS, START, N, assert_follows, gradients

from algorithms.compressors import Sign, SignMean, TopK
from algorithms.core.bit_counter import BitCounter
from algorithms.core.channels import dense
from algorithms.core.update_rules import SGD
from algorithms.methods.distributed_lion import distributed_lion
from algorithms.methods.signum import signum
from algorithms.optim.optimizer import CompressedOptimizer

LR = 0.01
TIES = {"plus": 1, "zero": 0}
run = partial(small_support.run, lr=LR)


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("update", [SGD(), SGD(weight_decay=0.3), SGD(weight_decay=0.3, decoupled=True)])
@pytest.mark.parametrize("beta", [0.0, 0.9])
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


def test_ties_are_met_here():
    plus, zero = (run(signum(Sign(), SGD(), tie=tie)) for tie in TIES)
    assert not torch.equal(plus, zero)


def test_distributed_lion_of_one_average_is_signum():
    ours = run(distributed_lion(Sign(), SGD(), N, beta1=0.9, beta2=0.9))
    assert torch.equal(ours, run(signum(Sign(), SGD(), beta=0.9)))


def test_the_mean_of_signs_comes_down_as_if_it_were_dense():
    lion = distributed_lion(Sign(), SGD(), N, combine="mean")
    assert torch.equal(run(lion), run(replace(lion, downlink=dense())))


def test_one_worker_s_vote_is_its_own():
    """Signum of one worker, and both forms of Distributed Lion are Lion."""

    def first(x: torch.Tensor) -> torch.Tensor:
        return gradients(x)[:1]

    alone = [run(distributed_lion(Sign(), SGD(), 1, combine), first, 1) for combine in ("vote", "mean")]
    assert torch.equal(*alone)
    x, m, path = torch.tensor(START, dtype=torch.float64), torch.zeros(problem.D, dtype=torch.float64), []
    for _ in range(ROUNDS):
        g = first(x)[0]
        x, m = x - LR * (0.9 * m + 0.1 * g).sign(), 0.99 * m + 0.01 * g
        path.append(x)
    torch.testing.assert_close(alone[0], torch.stack(path), rtol=0, atol=1e-12)


def test_workers_with_equal_gradients_agree():
    def alike(x: torch.Tensor) -> torch.Tensor:
        return gradients(x)[:1].expand(N, -1)

    lion = [run(distributed_lion(Sign(), SGD(), N, combine), alike) for combine in ("vote", "mean")]
    assert torch.equal(*lion)


def test_a_minority_that_flips_its_signs_changes_nothing_where_the_rest_agree():
    def honest(x: torch.Tensor) -> torch.Tensor:
        return gradients(x)[:1].expand(3, -1).contiguous()

    def one_flips(x: torch.Tensor) -> torch.Tensor:
        return honest(x) * torch.tensor([[1.0], [-1.0], [1.0]], dtype=x.dtype)

    assert torch.equal(run(signum(Sign(), SGD()), honest, 3), run(signum(Sign(), SGD()), one_flips, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 20, 1000])
def test_every_mean_of_signs_crosses_exactly(workers, dtype):
    means = torch.tensor([2 * plus - workers for plus in range(workers + 1)], dtype=dtype) / workers
    compressor = SignMean(workers)
    assert torch.equal(compressor.decode(compressor.encode(means), len(means)), means)
    assert torch.equal(Sign(zero=True)(means), means.sign())
    assert torch.equal(Sign()(means), torch.where(means >= 0, 1.0, -1.0).to(dtype))


@pytest.mark.parametrize(
    ("algorithm", "up", "down"),  # of a round of 100 coordinates
    [
        (signum(Sign(), SGD()), 100, 100),
        (signum(Sign(), SGD(), tie="zero"), 100, 200),
        (distributed_lion(Sign(), SGD(), 20), 100, 100),
        (distributed_lion(Sign(), SGD(), 20, "mean"), 100, 500),
        (distributed_lion(Sign(), SGD(), 3, "mean"), 100, 200),
        (distributed_lion(Sign(), SGD(), 1, "mean"), 100, 100),
    ],
)
def test_no_scale_is_counted(algorithm, up, down):
    meter = BitCounter()
    meter.count(algorithm, 100, 1, torch.float32)
    assert (meter.bits_up, meter.bits_down) == (up, down)


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
