"""SparseLoCo: against plain loops, at the ends of its options, and by what comes down."""

import pytest
import torch
from local_support import ADAMW, ROUNDS, START, N, assert_close, run, states
from reference import groups as plain
from reference import problem
from reference.local_steps import adamw, sgd
from reference.sparseloco import sparseloco as plain_sparseloco

from algorithms.compressors import ChunkTopK, ChunkTopKBins, Identity
from algorithms.core.bit_counter import BitCounter
from algorithms.core.update_rules import SGD
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.sparseloco import sparseloco
from experiments.cluster.simulated import Simulated

LR = 0.01


@pytest.mark.parametrize("period", [1, 4])
@pytest.mark.parametrize("aggregate", ["all", "senders"])
@pytest.mark.parametrize("compressor", ["values", "bins"])
def test_it_follows_the_reference(period, aggregate, compressor):
    ours, theirs, chosen = {
        "values": (ChunkTopK(1, 3), lambda x: plain.chunk_top_k(x, 1, 3), lambda x: plain.chosen(x, 1, 3)),
        "bins": (ChunkTopKBins(2, 4), lambda x: plain.chunk_top_k_bins(x, 2, 4, 2), lambda x: plain.chosen(x, 2, 4)),
    }[compressor]
    inner = adamw(LR, 0.9, 0.95, 1e-8, 0.1)
    expected = plain_sparseloco(
        problem.gradient, START, N, inner, ROUNDS, period, theirs, chosen, 0.9, 0.7, aggregate == "senders"
    )
    found = run(sparseloco(ours, ADAMW, N, period, decay=0.9, outer_lr=0.7, aggregate=aggregate), LR)
    assert_close(found, torch.tensor(expected, dtype=torch.float64), 1e-10)


def test_who_sent_a_zero_is_a_sender():
    """Workers 0 and 1 have no gradient: their zeros cross, and make less of what the others send."""

    def gradient(i, x):
        return [0.0] * problem.D if i < 2 else problem.gradient(i, x)

    compress, chosen = (lambda x: plain.chunk_top_k(x, 2, 4)), (lambda x: plain.chosen(x, 2, 4))
    expected = plain_sparseloco(gradient, START, N, sgd(LR), 1, 1, compress, chosen, 0.9, 1.0, True)[0]
    gradients = [gradient(i, START) for i in range(N)]
    found = [of_one_round(one) for one in (gradients, gradients[2:])]
    assert_close(found[0], torch.tensor(expected, dtype=torch.float64), 1e-14)
    assert not torch.equal(found[0], found[1])


def of_one_round(gradients: list[list[float]]) -> torch.Tensor:
    """x after a round of as many workers, of whom each sends two of four coordinates."""
    algorithm = sparseloco(ChunkTopK(2, 4), SGD(), len(gradients), 1, aggregate="senders")
    cluster = Simulated(algorithm, len(gradients), 0)
    state = cluster.start(torch.tensor(START, dtype=torch.float64))
    return cluster.round(torch.tensor(gradients, dtype=torch.float64), state, LR, 1).replica.x


@pytest.mark.parametrize("aggregate", ["all", "senders"])
@pytest.mark.parametrize("decay", [0.0, 0.95])
def test_where_everything_is_sent_it_is_local_adamw(aggregate, decay):
    found = run(sparseloco(ChunkTopK(7, 7), ADAMW, N, period=5, decay=decay, aggregate=aggregate), LR)
    assert_close(found, run(local_sgd(Identity(), ADAMW, period=5), LR), 1e-12)


def test_of_equal_workers_all_are_senders():
    alike = [
        run(sparseloco(ChunkTopK(2, 7), ADAMW, N, period=5, aggregate=aggregate), LR, alike=True)
        for aggregate in ("all", "senders")
    ]
    assert_close(alike[0], alike[1], 1e-14)


def test_nothing_of_what_anyone_sent_is_lost_on_the_way_down():
    """C keeps one of every three, and n = 2 workers cannot send more than two."""
    few, all_of_it = (sparseloco(ChunkTopK(1, 3), SGD(), workers, period=2) for workers in (2, 3))
    assert (few.downlink.compressor, all_of_it.downlink.compressor) == (ChunkTopK(2, 3), Identity())
    x = torch.tensor([[3.0, 0.0, -1.0, 0.0, 5.0, 0.0, 7.0], [0.0, 2.0, 0.0, 0.0, 5.0, 0.0, 0.0]])
    mean = few.uplink.compressor(x).mean(0)
    assert torch.equal(few.downlink.compressor(mean), mean)


def test_its_bits():
    """Of 7 coordinates in chunks of 4 and 3, one of each: 2 + 2 bits and 160 up; from n = 2 two values of 34 down."""
    meter, algorithm = BitCounter(), sparseloco(ChunkTopKBins(1, 4, value_bits=3), SGD(), 2, period=5)
    for t in range(1, 16):
        meter.count(algorithm, 7, t, torch.float32)
    assert (meter.bits_up, meter.bits_down) == (3 * (2 * (3 + 2) + 32 * 9), 3 * (2 * 2 * 34))


def test_its_counts_are_those_of_a_published_deployment():
    """k = 64 of 4,096: 896 bits a chunk and the statistics, 146 times below dense."""
    d, compressor = 64 * 4096, ChunkTopKBins(64)
    assert compressor.bits(d) == 64 * 896 + 160
    assert 32 * d / compressor.bits(d) == pytest.approx(146, abs=1)


def test_it_learns():
    """f falls as with dense exchanges, where a third of the coordinates cross."""
    sparse, dense = (
        states(algorithm, 0.05)[-1].replica.x.tolist()
        for algorithm in (
            sparseloco(ChunkTopKBins(1, 3), ADAMW, N, period=3),
            local_sgd(Identity(), ADAMW, period=3),
        )
    )
    above, below, best = (sum(problem.loss(i, x) for i in range(N)) / N for x in (START, sparse, dense))
    assert above - below > 0.9 * (above - best)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sparseloco(ChunkTopK(), SGD(), N, aggregate="some"), "aggregate='some': must be 'all' or 'senders'"),  # type: ignore
        (lambda: sparseloco(ChunkTopK(), SGD(), N, decay=1.5), r"decay=1.5: must lie in \[0, 1\]"),
        (lambda: sparseloco(ChunkTopKBins(value_bits=1), SGD(), N), "value_bits=1: chunk_top_k_bins takes 2 to 8"),
        (lambda: sparseloco(ChunkTopKBins(1, 4), SGD(), N).check(8), "two would be lost"),
    ],
)
def test_what_cannot_work_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
