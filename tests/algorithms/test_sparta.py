"""SPARTA: against plain loops, at the end of its options, and by what an exchange does to the models."""

import pytest
import torch
from local_support import ADAMW, ROUNDS, SEED, START, N, assert_close, gradients, run, states
from reference import problem
from reference.local_steps import adamw
from reference.local_steps import sgd as plain_sgd
from reference.sparta import sparta as plain_sparta

from algorithms.compressors import Blocks, Identity, RandomK, TopK
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import SGD
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.sparta import sparta
from algorithms.utils.seeding import MessageKey
from experiments.cluster.simulated import Simulated

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


def test_with_all_coordinates_it_is_local_sgd():
    found = run(sparta(RandomK(k=D), ADAMW), LR)
    assert torch.equal(found, run(local_sgd(Identity(), ADAMW, period=1), LR))


def test_what_is_not_chosen_stays_as_it_is_bit_for_bit():
    algorithm = sparta(RandomK(k=2), SGD())
    for t, state in enumerate(states(algorithm, LR)[:-1], 1):
        apart = algorithm.local(gradients(state), state.workers, state.replica, LR, t).x
        after = Simulated(algorithm, N, SEED).round(gradients(state), state, LR, t)
        assert after.workers.x is not None
        assert apart is not None
        for k in range(D):
            if k in chosen(2, t):
                assert (after.workers.x[:, k] == after.replica.x[k]).all()
            else:
                assert torch.equal(after.workers.x[:, k], apart[:, k])
                assert torch.equal(after.replica.x[k], state.replica.x[k])


def test_exchanges_alone_leave_the_mean_and_bring_models_together():
    """Without gradients the mean stays, and the expected scatter falls by the factor 1 − k/d a round."""
    d, k, rounds, n = 2000, 100, 30, 4
    cluster = Simulated(sparta(RandomK(k=k), SGD()), n, SEED)
    state = cluster.start(torch.zeros(d, dtype=torch.float64))
    apart = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    state = cluster.round(-apart, state, 1.0, 1)  # every worker goes to a place of its own
    begin, scatter = cluster.model(state), []
    for t in range(2, rounds + 2):
        assert state.workers.x is not None
        scatter.append(((state.workers.x - state.workers.x.mean(0)) ** 2).sum().item())
        state = cluster.round(torch.zeros(n, d, dtype=torch.float64), state, 1.0, t)
    assert_close(cluster.model(state), begin, 1e-14)
    assert (scatter[-1] / scatter[0]) ** (1 / (rounds - 1)) == pytest.approx(1 - k / d, abs=0.003)


def test_what_is_measured_is_the_mean_of_the_models():
    cluster = Simulated(sparta(RandomK(k=1), SGD()), N, SEED)
    state = states(cluster.algorithm, LR)[-1]
    assert state.workers.x is not None
    assert_close(cluster.model(state), state.workers.x.mean(0), 1e-15)
    assert not torch.equal(cluster.model(state), state.replica.x)


def test_its_bits():
    meter, algorithm = BitCounter(), sparta(RandomK(ratio=0.005), SGD())
    for t in range(1, 11):
        meter.count(algorithm, 1000, t, torch.float32)
    assert (meter.bits_up, meter.bits_down, meter.payload_bytes) == (10 * (5 * 32 + 64), 10 * (5 * 32 + 64), 10 * 56)


def test_it_learns():
    """The mean of the models falls nearly as that of workers who average everything."""
    algorithm = sparta(RandomK(k=1), ADAMW)
    cluster = Simulated(algorithm, N, SEED)
    sparse = cluster.model(states(algorithm, LR)[-1])
    dense = run(local_sgd(Identity(), ADAMW, period=7), LR)[-1]
    above, below, best = (
        sum(problem.loss(i, x) for i in range(N)) / N for x in (START, sparse.tolist(), dense.tolist())
    )
    assert above - below > 0.9 * (above - best)


def test_tensors_draw_for_themselves():
    """A block's own share is averaged, the same everywhere."""
    state = states(sparta(Blocks(RandomK(k=1), (3, D - 3)), SGD()), LR)[1]
    assert state.workers.x is not None
    alike = (state.workers.x == state.replica.x).all(0)
    assert (alike[:3].sum(), alike[3:].sum()) == (1, 1)


@pytest.mark.parametrize(
    ("compressor", "said"),
    [
        (TopK(k=1), "sparta averages coordinates drawn alike everywhere; take random_k"),
        (Blocks(TopK(k=1), (3, 4)), "take random_k"),
        (RandomK(k=1, unbiased=True), "random_k without `unbiased`"),
    ],
    ids=["top_k", "blocks", "unbiased"],
)
def test_other_compressors_are_refused(compressor, said):
    with pytest.raises(ValueError, match=said):
        sparta(compressor, SGD())
