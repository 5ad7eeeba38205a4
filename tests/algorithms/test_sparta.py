"""SPARTA: against plain loops, at the end of its options, and by what an exchange does to the models."""

import pytest
import torch
from reference import problem
from reference.local_steps import adamw
from reference.local_steps import sgd as plain_sgd
from reference.local_steps import sparta as plain_sparta
from small_support import ADAMW, ROUNDS, SEED, START, N, assert_close, states

from algorithms.compressors import Blocks, RandomK, TopK
from algorithms.core.update_rules import SGD
from algorithms.methods.sparta import sparta
from algorithms.utils.seeding import MessageKey
from experiments.cluster.base import Simulated

LR, D = 0.05, problem.D


def chosen(k, t, d=D):
    """S of round t."""
    return RandomK(k=k)(torch.ones(d), MessageKey(SEED, "shared", t)).nonzero().flatten().tolist()


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("inner", ["sgd", "adamw"])
def test_it_follows_the_reference(k, inner):
    ours, theirs = {"sgd": (SGD(), plain_sgd(LR)), "adamw": (ADAMW, adamw(LR, 0.9, 0.95, 1e-8, 0.1))}[inner]
    expected = plain_sparta(problem.gradient, START, N, theirs, ROUNDS, lambda t: chosen(k, t))
    found = [state.workers.x for state in states(sparta(RandomK(k=k), ours), LR)[1:]]
    assert_close(torch.stack(found), torch.tensor(expected, dtype=torch.float64), 1e-10)


def test_what_is_measured_is_the_mean_of_the_models():
    cluster = Simulated(sparta(RandomK(k=1), SGD()), N, SEED)
    state = states(cluster.algorithm, LR)[-1]
    assert state.workers.x is not None
    assert_close(cluster.model(state), state.workers.x.mean(0), 1e-15)
    assert not torch.equal(cluster.model(state), state.replica.x)


@pytest.mark.parametrize(
    ("compressor", "said"),
    [
        (TopK(k=1), "sparta needs coordinates that every worker draws alike; take random_k"),
        (Blocks(TopK(k=1), (3, 4)), "take random_k"),
        (RandomK(k=1, unbiased=True), "random_k without `unbiased`"),
    ],
    ids=["top_k", "blocks", "unbiased"],
)
def test_other_compressors_are_refused(compressor, said):
    with pytest.raises(ValueError, match=said):
        sparta(compressor, SGD())
