"""SparseLoCo: against plain loops, at the ends of its options, and by what comes down."""

import pytest
import torch
from reference import groups as plain
from reference import problem
from reference.local_steps import adamw, local_steps
from small_support import ADAMW, ROUNDS, START, N, assert_close, run

from algorithms.compressors import ChunkTopK, ChunkTopKBins, Identity
from algorithms.core.update_rules import SGD
from algorithms.methods.sparseloco import sparseloco

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
    chosen = chosen if aggregate == "senders" else None
    expected = local_steps(problem.gradient, START, N, inner, ROUNDS, period, 0.7, 0.0, theirs, 0.9, chosen)
    found = run(sparseloco(ours, ADAMW, N, period, decay=0.9, outer_lr=0.7, aggregate=aggregate), LR)
    assert_close(found, torch.tensor(expected, dtype=torch.float64), 1e-10)


def test_nothing_of_what_anyone_sent_is_lost_on_the_way_down():
    """C keeps one of every three, and n = 2 workers cannot send more than two."""
    few, all_of_it = (sparseloco(ChunkTopK(1, 3), SGD(), workers, period=2) for workers in (2, 3))
    assert (few.downlink.compressor, all_of_it.downlink.compressor) == (ChunkTopK(2, 3), Identity())
    x = torch.tensor([[3.0, 0.0, -1.0, 0.0, 5.0, 0.0, 7.0], [0.0, 2.0, 0.0, 0.0, 5.0, 0.0, 0.0]])
    mean = few.uplink.compressor(x).mean(0)
    assert torch.equal(few.downlink.compressor(mean), mean)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sparseloco(ChunkTopK(), SGD(), N, decay=1.5), r"decay=1.5: must lie in \[0, 1\]"),
        (lambda: sparseloco(ChunkTopKBins(value_bits=1), SGD(), N), "value_bits=1: chunk_top_k_bins takes 2 to 8"),
        (lambda: sparseloco(ChunkTopKBins(1, 4), SGD(), N).check(8), "two would be lost"),
    ],
)
def test_what_cannot_work_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
