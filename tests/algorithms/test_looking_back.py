"""Gradients at the previous model: DASHA-MVR against plain loops and DASHA, and what a trainer asks of its task."""

from types import SimpleNamespace

import pytest
import torch
from reference import methods as ref
from reference import problem
from refusals import refusals
from small_support import LR, ROUNDS, SEED, START, N, assert_close, natural, row_gradient, train

from algorithms.compressors import Identity, Natural, RandomK
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import dense
from algorithms.core.update_rules import SGD
from algorithms.methods.dasha import dasha
from algorithms.methods.dasha_mvr import dasha_mvr
from algorithms.methods.marina import Coin
from algorithms.methods.sgd import sgd
from algorithms.methods.vr_marina import vr_marina
from algorithms.optim.ddp_hook import compressed
from algorithms.optim.optimizer import CompressedOptimizer
from data.synthetic import synthetic
from experiments.cluster.base import Simulated
from experiments.tasks.logreg import LogisticRegression
from experiments.training.trainer import Trainer

HALF = RandomK(k=4, unbiased=True)


@pytest.mark.parametrize(
    ("rate", "b", "start"),
    [(None, 0.1, "dense"), (0.3, 0.7, "zero"), (None, 0.0, "share"), (None, 1.0, "dense")],
)
def test_dasha_mvr_follows_the_reference(rate, b, start):
    uplinks = [ref.dasha(natural(i), 0.8 if rate is None else rate, start) for i in range(N)]  # 1/(2ω + 1), ω = 1/8
    gradient = ref.variance_reduced(row_gradient, b)
    expected = ref.rounds(gradient, START, uplinks, ref.direct(), ref.sgd(LR), ROUNDS)
    assert_close(train(dasha_mvr(Natural(), SGD(), b, rate, start))[0], expected)


def test_vr_marina_follows_the_reference():
    x, last, signal, path = START, START, [], []
    compress = [natural(i) for i in range(N)]
    for t in range(1, ROUNDS + 1):
        if Coin(0.4, SEED).shows_heads(t):
            signal = problem.mean([problem.gradient(i, x) for i in range(N)])
        else:
            news = [ref.plus(row_gradient(i, x, t), row_gradient(i, last, t), -1) for i in range(N)]
            signal = ref.plus(signal, problem.mean([compress[i](news[i], t) for i in range(N)]))
        x, last = ref.plus(x, signal, -LR), x
        path.append(x)
    assert_close(train(vr_marina(Natural(), SGD(), SEED, p=0.4))[0], path)


def after(rounds: int, algorithm: Algorithm, batch_size: int | None, **settings: object) -> Trainer:
    data = synthetic(rows=400, features=12, workers=N, heterogeneity=0.5)
    task = LogisticRegression(data, workers=N, seed=SEED, batch_size=batch_size)
    trained = Trainer(task, Simulated(algorithm, N, SEED), rounds=2000, lrs=[0.05, 0.2], **settings)
    for _ in range(rounds):
        trained.step()
    return trained


def test_vr_marina_takes_full_gradients_when_the_coin_says_so():
    """With heads in every round it is SGD on full gradients, though the task has batches."""
    one = after(10, vr_marina(HALF, SGD(), SEED, p=1.0), 2)
    other = after(10, sgd(Identity(), SGD()), None)
    torch.testing.assert_close(one.state.replica.x, other.state.replica.x, rtol=0, atol=1e-14)
    cluster = Simulated(vr_marina(HALF, SGD(), p=0.5), 2, 0)
    with pytest.raises(ValueError, match="has no full_gradients, which this method needs"):
        Trainer(SimpleNamespace(), cluster, rounds=2, lrs=[0.1])  # type: ignore


def test_a_trainer_counts_both_gradients():
    assert {row["gradient_calls"] for row in after(4, dasha_mvr(HALF, SGD()), 2).evaluate()} == {8}
    assert "gradient_calls" not in after(1, dasha(HALF, SGD()), 2).evaluate()[0]


PARAMS = [torch.nn.Parameter(torch.zeros(9))]


def overriding(name: str) -> Algorithm:
    """A method of a user's with a function that an optimizer would leave out."""
    return type("Own", (Algorithm,), {name: lambda *_: ()})(dense(), dense(), SGD())


test_what_cannot_work_is_refused = refusals(
    (lambda: compressed(PARAMS, overriding("variance_reduced_gradient")), "this method does not send grad"),
    (lambda: compressed(PARAMS, overriding("sync_workers")), "Own: overrides sync_workers, which optimizer"),
    (lambda: dasha_mvr(HALF, SGD(), b=1.5), r"b=1.5: must lie in \[0, 1\]"),
    (lambda: CompressedOptimizer(PARAMS, "dasha_mvr", lr=0.1), "also need gradients at the previous model"),
    *(
        (lambda name=name: CompressedOptimizer(PARAMS, overriding(name), lr=0.1), f"Own: overrides {name}, which")
        for name in ("replica", "stages", "local_step", "sync_workers", "takes_full_gradient")
    ),
)
