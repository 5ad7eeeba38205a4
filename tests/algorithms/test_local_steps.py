"""Methods with local steps: against plain loops and torch, by their bits, and by what comes down."""

from functools import partial

import pytest
import torch
from reference import compressors as plain
from reference import groups, matrices, problem
from reference.local_steps import adamw, local_steps
from reference.local_steps import sgd as plain_sgd
from reference.local_steps import sparta as plain_sparta
from reference.muon import Muon
from refusals import refusals
from small_network import count_bits
from small_support import ADAMW, LR, ROUNDS, SEED, START, N, assert_close, run, states

from algorithms.compressors import BinMeans, Blocks, ChunkTopK, ChunkTopKBins, Identity, RandomK, ScaledSign, TopK
from algorithms.core.update_rules import SGD
from algorithms.methods.diloco import diloco
from algorithms.methods.local_sgd import local_sgd
from algorithms.methods.muloco import muloco
from algorithms.methods.sparseloco import sparseloco
from algorithms.methods.sparta import sparta
from algorithms.optim.ddp_hook import compressed
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.utils.layout import laid_out
from algorithms.utils.seeding import MessageKey
from experiments.cluster.base import Simulated


def inner(name, lr):
    """The inner update, and that of the reference."""
    return {"sgd": (SGD(), plain_sgd(lr)), "adamw": (ADAMW, adamw(lr, 0.9, 0.95, 1e-8, 0.1))}[name]


@pytest.mark.parametrize("period", [1, 3, 7])
@pytest.mark.parametrize("update", ["sgd", "adamw"])
def test_local_sgd_follows_the_reference(period, update):
    ours, theirs = inner(update, LR)
    expected = local_steps(problem.gradient, START, N, theirs, ROUNDS, period)
    assert_close(run(local_sgd(Identity(), ours, period)), expected)


@pytest.mark.parametrize("period", [1, 4])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(Identity(), plain.identity), (TopK(k=2), plain.top_2), (ScaledSign(), plain.scaled_sign)],
    ids=["identity", "top_2", "scaled_sign"],
)
@pytest.mark.parametrize("uplink_only", [True, False])
def test_diloco_follows_the_reference(period, ours, theirs, uplink_only):
    update, of_reference = inner("adamw", 0.01)
    options = {"outer_lr": 0.7, "outer_momentum": 0.9, "decay": 0.95, "uplink_only": uplink_only}
    outer = (period, 0.7, 0.9, theirs, 0.95, None, None if uplink_only else theirs)
    expected = local_steps(problem.gradient, START, N, of_reference, ROUNDS, *outer)
    assert_close(run(diloco(ours, update, period, **options), lr=0.01), expected)


SIZES = (2, 1, 1, 3)
LAYOUT = laid_out((str(number), (size,), "vector") for number, size in enumerate(SIZES))
FRAGMENTS = {1: [range(7)], 2: [range(3), range(3, 7)], 3: [range(2), range(2, 4), range(4, 7)]}


@pytest.mark.parametrize(("fragments", "delay", "mixing"), [(1, 5, 1.0), (2, 0, 1.0), (2, 4, 0.3), (3, 2, 0.7)])
@pytest.mark.parametrize("uplink_only", [True, False])
def test_streaming_follows_the_reference(fragments, delay, mixing, uplink_only):
    (update, theirs), sign = inner("adamw", 0.01), plain.scaled_sign
    cut = {"fragments": FRAGMENTS[fragments], "delay": delay, "a": mixing, "down": None if uplink_only else sign}
    expected = local_steps(problem.gradient, START, N, theirs, ROUNDS, 6, 0.7, 0.9, sign, 0.95, **cut)
    ours = diloco(ScaledSign(), update, 6, uplink_only=uplink_only, fragments=fragments, delay=delay, mixing=mixing,
                  layout=LAYOUT)  # fmt: skip
    assert_close(run(ours, lr=0.01), expected)


streaming = partial(diloco, update=ADAMW, period=6, layout=LAYOUT)


@pytest.mark.parametrize("compressor", [ScaledSign(), Blocks(ScaledSign(), SIZES)], ids=["whole", "layer"])
def test_fragments_send_all_coordinates_once_in_a_period(compressor):
    method = streaming(compressor, fragments=3)
    assert [t for t in range(1, 7) if method.stages(t)] == [2, 4, 6]
    scales, meter = 3 if isinstance(compressor, ScaledSign) else len(SIZES), count_bits(method, 7, 6)
    assert (meter.bits_up, meter.bits_down) == (7 + 32 * scales, 32 * 7)


@pytest.mark.parametrize(("period", "nesterov", "scale"), [(1, True, "original"), (4, False, "spectral")])
@pytest.mark.parametrize(
    ("compressor", "theirs"),
    [(Identity(), plain.identity), (ScaledSign(), plain.scaled_sign), (BinMeans(), lambda x: groups.bin_means(x, 2))],
    ids=["identity", "scaled_sign", "bin_means"],
)
def test_muloco_follows_the_reference(compressor, theirs, period, nesterov, scale):
    n, layout = matrices.WORKERS, laid_out(matrices.TENSORS)
    apart = [Muon(0.02, 0.9, nesterov, scale, 0.5, 0.1, 0.99, 1e-8) for _ in range(n)]

    def step(i, t, x, g):
        return apart[i].step(x, g)

    expected = local_steps(matrices.gradient, matrices.START, n, step, ROUNDS, period, 0.9, 0.8, theirs, 0.95)
    ours = muloco(compressor, layout, period, nesterov=nesterov, scale=scale, others_lr=0.5, weight_decay=0.1)
    assert_close(run(ours, 0.02, matrices), expected)


@pytest.mark.parametrize("period", [1, 4])
@pytest.mark.parametrize("aggregate", ["all", "senders"])
@pytest.mark.parametrize("compressor", ["values", "bins"])
def test_sparseloco_follows_the_reference(period, aggregate, compressor):
    ours, theirs, of = {
        "values": (ChunkTopK(1, 3), lambda x: groups.chunk_top_k(x, 1, 3), (1, 3)),
        "bins": (ChunkTopKBins(2, 4), lambda x: groups.chunk_top_k_bins(x, 2, 4, 2), (2, 4)),
    }[compressor]
    update, of_reference = inner("adamw", 0.01)
    chosen = (lambda x: groups.chosen(x, *of)) if aggregate == "senders" else None
    expected = local_steps(problem.gradient, START, N, of_reference, ROUNDS, period, 0.7, 0.0, theirs, 0.9, chosen)
    found = run(sparseloco(ours, update, N, period, decay=0.9, outer_lr=0.7, aggregate=aggregate), 0.01)
    assert_close(found, expected)


def test_nothing_of_what_anyone_sent_is_lost_on_the_way_down():
    """C keeps one of every three, and n = 2 workers cannot send more than two."""
    few, all_of_it = (sparseloco(ChunkTopK(1, 3), SGD(), workers, period=2) for workers in (2, 3))
    assert (few.downlink.compressor, all_of_it.downlink.compressor) == (ChunkTopK(2, 3), Identity())
    x = torch.tensor([[3.0, 0.0, -1.0, 0.0, 5.0, 0.0, 7.0], [0.0, 2.0, 0.0, 0.0, 5.0, 0.0, 0.0]])
    mean = few.uplink.compressor(x).mean(0)
    assert torch.equal(few.downlink.compressor(mean), mean)


@pytest.mark.parametrize(("d", "bits"), [(112, 32 * 112), (4096, 640 * 44), (4096 + 112, (640 + 112) * 44)])
def test_sparseloco_sends_no_more_than_everything_down(d, bits):
    """20 workers send 32 of every 4096 coordinates each; a short last chunk has no room for 640."""
    assert sparseloco(ChunkTopK(), SGD(), 20, d=d).downlink.bits(d, 15) == bits


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("update", ["sgd", "adamw"])
def test_sparta_follows_the_reference(k, update):
    def chosen(t):
        key = MessageKey(SEED, "shared", t)
        return RandomK(k=k)(torch.ones(problem.D), key).nonzero().flatten().tolist()

    ours, theirs = inner(update, 0.05)
    expected = plain_sparta(problem.gradient, START, N, theirs, ROUNDS, chosen)
    assert_close(torch.stack([state.workers.x for state in states(sparta(RandomK(k=k), ours), 0.05)[1:]]), expected)


def test_what_is_measured_of_sparta_is_the_mean_of_the_models():
    cluster = Simulated(sparta(RandomK(k=1), SGD()), N, SEED)
    state = states(cluster.algorithm, 0.05)[-1]
    assert_close(cluster.model(state), state.workers.x.mean(0), 1e-15)
    assert not torch.equal(cluster.model(state), state.replica.x)


test_what_cannot_work_is_refused = refusals(
    (lambda: streaming(Identity(), fragments=4), "fragments=4: must divide period=6"),
    (lambda: streaming(Identity(), fragments=6), "fragments=6: cuts between parameter tensors give only 4"),
    (lambda: streaming(Identity(), delay=6), "delay=6: must be at least 0 and less than period=6"),
    (lambda: streaming(Identity(), mixing=0), "mixing=0: must lie"),
    (lambda: diloco(Identity(), ADAMW, 6, delay=1).check(7), "layout: 0 coordinates in all"),
    (lambda: streaming(Blocks(ScaledSign(), (2, 5)), fragments=2).check(7), "of the compressor cross fragments"),
    (lambda: local_sgd(Identity(), SGD(), period=0), "period=0: must be a whole number, at least 1"),
    (lambda: local_sgd(Identity(), SGD(), period=2.5), "period=2.5: must be a whole number"),
    (lambda: diloco(Identity(), SGD(), outer_lr=0.0), "outer_lr=0.0: must be positive"),
    (lambda: diloco(Identity(), SGD(), outer_momentum=1.0), r"outer_momentum=1.0: must lie in \[0, 1\)"),
    (lambda: CompressedOptimizer([torch.zeros(3, requires_grad=True)], "diloco", lr=1), "local models"),
    (lambda: compressed([torch.zeros(3, requires_grad=True)], "diloco"), "makes its own step"),
    (lambda: sparseloco(ChunkTopK(), SGD(), N, decay=1.5), r"decay=1.5: must lie in \[0, 1\]"),
    (lambda: sparseloco(ChunkTopKBins(value_bits=1), SGD(), N), "value_bits=1: chunk_top_k_bins takes 2 to 8"),
    (lambda: sparseloco(ChunkTopKBins(1, 4), SGD(), N).check(8), "two become 0"),
    (lambda: sparta(TopK(k=1), SGD()), "sparta needs coordinates that every worker draws alike; take random_k"),
    (lambda: sparta(Blocks(TopK(k=1), (3, 4)), SGD()), "take random_k"),
    (lambda: sparta(RandomK(k=1, unbiased=True), SGD()), "random_k without `unbiased`"),
)
