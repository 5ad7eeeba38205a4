"""Methods that see matrices: against plain loops and torch, at the ends of their options, and in use."""

import pytest
import small_support
import torch
from reference import compressors as plain
from reference import matrices as problem
from reference.demo import demo as plain_demo
from reference.dion import dion as plain_dion
from reference.muon import Muon
from reference.muon import ef21_muon as plain_ef21_muon
from reference.muon import muon as plain_muon
from reference.powersgd import powersgd as plain_powersgd
from refusals import refusals
from small_support import SEED, assert_close
from torch import Tensor

from algorithms.comm.sharded_server import cuts
from algorithms.compressors import ChunkTopK, ChunkTopKBins, DctTopK, Identity, TopK
from algorithms.core.aggregation import Mean, SendersMean
from algorithms.core.algorithm import Algorithm
from algorithms.methods.bases.low_rank import Factored, LowRank
from algorithms.methods.demo import demo
from algorithms.methods.dion import dion
from algorithms.methods.ef21_muon import ef21_muon
from algorithms.methods.muon import muon
from algorithms.methods.powersgd import powersgd
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.registry import load_method
from algorithms.utils.layout import check_layout, laid_out, with_ends
from algorithms.utils.linalg import orthonormalize, product
from experiments.cluster.base import Simulated

ROUNDS, LR = 40, 0.02
LAYOUT = laid_out(problem.TENSORS)


def gradients(x: Tensor) -> Tensor:
    """∇f_i of the small problem for parameters [d]: [W, d]."""
    return torch.tensor([problem.gradient(i, x.tolist()) for i in range(problem.WORKERS)], dtype=x.dtype)


PROBLEM = (problem.gradient, problem.START, problem.WORKERS)


def run(algorithm: Algorithm, rounds: int = ROUNDS) -> Tensor:
    """x after each round [rounds, d]."""
    return small_support.run(algorithm, LR, problem, rounds=rounds)


def test_the_ends_of_a_chain_of_layers():
    square, vector = ((2, 2), "matrix"), ((2,), "vector")
    chain = laid_out([("a", *square), ("b", *vector), ("c", *square), ("d", (1, 2), "matrix")])
    assert [block.role for block in with_ends(chain)] == ["embedding", "vector", "matrix", "head"]
    assert [block.role for block in with_ends(chain[:2])] == ["head", "vector"]
    assert with_ends(chain[1:2]) == chain[1:2]
    scalar = laid_out([("scale", (), "vector"), ("none", (0, 3), "matrix")])
    assert [(block.rows, block.columns) for block in scalar] == [(1, 1)]


@pytest.mark.parametrize(
    ("nesterov", "scale", "weight_decay"),
    [(False, "original", 0.3), (True, "spectral", 0.0), (True, "match_rms_adamw", 0.3)],
)
def test_muon_follows_the_reference(nesterov, scale, weight_decay):
    options = {"momentum": 0.8, "nesterov": nesterov, "scale": scale, "others_lr": 0.5, "weight_decay": weight_decay}
    expected = plain_muon(*PROBLEM, 25, Muon(LR, **options))
    assert_close(run(muon(Identity(), LAYOUT, **options), 25), expected)


def test_muon_is_torch_s_up_to_its_bfloat16():
    x = [torch.nn.Parameter(block.view(torch.tensor(problem.START)).clone()) for block in LAYOUT]
    matrices = [part for part, block in zip(x, LAYOUT, strict=True) if block.role == "matrix"]
    others = [part for part, block in zip(x, LAYOUT, strict=True) if block.role != "matrix"]
    theirs = [
        torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.1, adjust_lr_fn="original"),
        torch.optim.AdamW(others, lr=0.02 * 0.015, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.1),
    ]
    for _ in range(10):
        mean = gradients(torch.cat([part.detach().flatten() for part in x])).mean(0)
        for part, block in zip(x, LAYOUT, strict=True):
            part.grad = block.view(mean).clone()
        for optimizer in theirs:
            optimizer.step()
    found = run(muon(Identity(), LAYOUT, weight_decay=0.1), 10)[-1]
    assert_close(found, torch.cat([part.detach().flatten() for part in x]).double(), 0.003)


def test_a_scheduler_may_take_muon_s_momentum_down_to_zero_and_up_again():
    """B is then the last gradient, as torch's is; without momentum at the start there is no B to begin one in."""
    drawn, shape = torch.Generator().manual_seed(3), (4, 3)
    ours, theirs = (torch.nn.Parameter(torch.zeros(shape)) for _ in range(2))
    layout = laid_out([("x", shape, "matrix")])
    optimizers = [
        CompressedOptimizer([ours], "muon", lr=0.1, layout=layout),
        torch.optim.Muon([theirs], lr=0.1, weight_decay=0.0, adjust_lr_fn="original"),
    ]
    for momentum in (0.9, 0.0, 0.9):
        ours.grad = theirs.grad = torch.randn(shape, generator=drawn)
        for optimizer in optimizers:
            optimizer.param_groups[0]["momentum"] = momentum
            optimizer.step()
    assert_close(ours.detach().double(), theirs.detach(), 0.01)
    with pytest.raises(
        ValueError, match=r"momentum=0\.5: a group of this method may set lr, weight_decay, compressor"
    ):
        CompressedOptimizer([{"params": ours, "momentum": 0.5}], "muon", lr=0.1, layout=layout, momentum=0.0)


def first_factors(algorithm: Algorithm) -> dict[str, list[list[float]]]:
    """Q of every compressed tensor before the first round, by its name."""
    assert isinstance(algorithm, LowRank)
    replica = algorithm.start_replica(torch.tensor(problem.START, dtype=torch.float64))
    assert isinstance(replica, Factored)
    parts = zip(algorithm.compressed, algorithm.split_factors(replica.q, rows=False), strict=True)
    return {block.name: part.tolist() for block, part in parts}


@pytest.mark.parametrize(
    ("rank", "residual", "roles", "weight_decay"),
    [(1, "global", "all", 0.0), (2, "local", "all", 0.1), (1, "local", "matrix", 0.0), (2, "global", "matrix", 0.1)],
)
def test_powersgd_follows_the_reference(rank, residual, roles, weight_decay):
    options = {"momentum": 0.8, "weight_decay": weight_decay, "residual": residual}
    ours = powersgd(Identity(), LAYOUT, SEED, rank=rank, roles=roles, **options)
    q = first_factors(ours)
    assert len(q) == (4 if roles == "all" else 2)
    assert_close(run(ours), plain_powersgd(*PROBLEM, LR, ROUNDS, q, **options))


def test_powersgd_goes_on_after_a_round_without_gradient():
    """Q would be zero and P with it, for ever; neither may be NaN."""
    algorithm, x = powersgd(Identity(), LAYOUT), torch.tensor(problem.START, dtype=torch.float64)
    cluster = Simulated(algorithm, problem.WORKERS, SEED)
    state = cluster.start(x)
    before = state.replica.q
    state = cluster.round(torch.zeros(problem.WORKERS, problem.D, dtype=x.dtype), state, LR, 1)
    assert torch.equal(state.replica.x, x)
    assert torch.equal(state.replica.q, before)
    assert not torch.equal(cluster.round(gradients(x), state, LR, 2).replica.x, x)


@pytest.mark.parametrize(("k", "side", "weight_decay"), [(1, 4, 0.0), (3, 2, 0.1), (3, 4, 0.0)])
def test_demo_follows_the_reference(k, side, weight_decay):
    options = {"beta": 0.9, "weight_decay": weight_decay}
    expected = plain_demo(*PROBLEM, LR, ROUNDS, k, side, **options)
    assert_close(run(demo(DctTopK(k, side), LAYOUT, **options)), expected)


@pytest.mark.parametrize(("dct", "tie"), [(True, "zero"), (False, "plus")])
def test_demo_s_zeros_are_sent(dct, tie):
    """A worker without a gradient, and others without every third: the mean is over them, too."""

    def gradient(i: int, x: list[float]) -> list[float]:
        return [0.0 if i == 0 or j % 3 == i % 3 else g for j, g in enumerate(problem.gradient(i, x))]

    ours = demo(DctTopK(3, 4, dct), LAYOUT, 0.9, tie=tie)
    expected = plain_demo(gradient, problem.START, problem.WORKERS, LR, 10, 3, 4, 0.9, 0.0, dct, tie == "plus")
    assert_close(small_support.run(ours, LR, problem, rounds=10, gradient=gradient), expected)


def test_a_coefficient_that_few_sent_is_not_made_small_by_the_others():
    """Each sends two, the lower of equals: the second and the third a 0 beside their 3 and 9."""
    vectors = torch.tensor([[1.0, 0.0, -2.0, 0.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 9.0]])
    codec = ChunkTopK(2, 4)
    payloads = [codec.encode(vector) for vector in vectors]
    expected = torch.tensor([(1 + 3 + 0) / 3, 0.0, -2.0, 9.0])
    assert torch.equal(SendersMean().aggregate(payloads, codec, 4), expected)
    assert torch.equal(SendersMean().aggregate_stacked(codec.encode(vectors[None]), codec, 4), expected[None])
    assert torch.equal(Mean().aggregate(payloads, codec, 4), vectors.sum(0) / 3)
    assert torch.equal(Mean().aggregate_stacked(codec.encode(vectors), codec, 4), vectors.sum(0) / 3)
    with pytest.raises(ValueError, match=r"TopK.*: has no `sent_mask`, which a mean over"):
        SendersMean().aggregate([TopK(k=1).encode(vectors)], TopK(k=1), 4)


def test_zeros_are_sent_too():
    zeros, bins = torch.zeros(8), ChunkTopKBins(2, 4)
    assert bins.sent_mask(bins.encode(zeros), 8).tolist() == [True, True, False, False] * 2
    assert Identity().sent_mask(Identity().encode(zeros), 8).all()


@pytest.mark.parametrize("dense_start", [False, True])
@pytest.mark.parametrize("dense_down", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(TopK(k=2), plain.top_2), (Identity(), plain.identity)], ids=["top_2", "identity"]
)
def test_ef21_muon_follows_the_reference(ours, theirs, dense_start, dense_down, weight_decay):
    options = {"scale": "original", "others_lr": 0.5, "weight_decay": weight_decay}
    step = Muon(LR, 0.0, False, **options)
    expected = plain_ef21_muon(*PROBLEM, 25, step, theirs, 0.3, dense_start, dense_down)
    algorithm = ef21_muon(ours, LAYOUT, 0.3, uplink_only=dense_down, dense_start=dense_start, **options)
    assert_close(run(algorithm, 25), expected)


@pytest.mark.parametrize(("fraction", "momentum", "weight_decay"), [(0.5, 0.9, 0.1), (1.0, 0.0, 0.0)])
def test_dion_follows_the_reference(fraction, momentum, weight_decay):
    options = {"momentum": momentum, "others_lr": 0.5, "weight_decay": weight_decay}
    ours = dion(Identity(), LAYOUT, SEED, fraction=fraction, **options)
    q = first_factors(ours)
    assert q.keys() == {"tall", "wide"}
    assert {(len(rows), len(rows[0])) for rows in q.values()} == {(2, 2 * fraction)}
    assert_close(run(ours), plain_dion(*PROBLEM, LR, ROUNDS, q, **options))


def optimized(algorithm: Algorithm, *shape: int) -> CompressedOptimizer:
    return CompressedOptimizer([torch.nn.Parameter(torch.zeros(shape or problem.D))], algorithm, lr=0.1)


def swapped() -> CompressedOptimizer:
    """The layout has a matrix of 20 coordinates first, split in two, and the model its bias."""
    layout = laid_out([("top", (2, 5), "matrix"), ("bottom", (2, 5), "matrix"), ("bias", (2,), "vector")])
    params = [torch.nn.Parameter(torch.zeros(size)) for size in (20, 2)]
    CompressedOptimizer(params, muon(Identity(), layout), lr=0.1)
    return CompressedOptimizer(params[::-1], muon(Identity(), layout), lr=0.1)


test_what_cannot_work_is_refused = refusals(
    (lambda: check_layout(LAYOUT, problem.D + 1), "blocks of 27 coordinates in all; the vectors have d = 28"),
    (lambda: load_method("muon").check(problem.D), "needs layout=, the shapes and roles"),
    (lambda: load_method("demo").check(problem.D), "needs layout="),
    (lambda: load_method("lamb").check(problem.D), "needs layout="),
    (lambda: load_method("onebit_lamb", rounds=9).check(problem.D), "needs layout="),
    (lambda: cuts(load_method("demo", layout=LAYOUT), problem.D, 2), r"cluster\.server=rank0"),
    (lambda: cuts(powersgd(Identity(), LAYOUT), problem.D, 2), "PowerSGD: may need the whole vector"),
    (lambda: cuts(ef21_muon(TopK(k=2), LAYOUT), problem.D, 2), "EF21Muon: may need the whole vector"),
    (lambda: swapped(), "layout: no block ends where parameter 0 does, after 2 coordinates; give the blocks in the"),
    (lambda: laid_out([("w", (2, 5), "matrices")]), "role='matrices': must be 'matrix' or 'vector' or 'embedding'"),
    (lambda: optimized(muon(Identity(), laid_out([("w", (5, 2), "matrix")])), 2, 5), r"block 'w' is \(5, 2\); give"),
    (lambda: optimized(powersgd(Identity(), LAYOUT)), "PowerSGD: overrides stages, which optimizer and hooks do"),
    (lambda: optimized(ef21_muon(TopK(k=2), LAYOUT)), "EF21Muon: overrides stages"),
    (lambda: powersgd(Identity(), LAYOUT, rank=0), "rank=0: must be at least 1"),
    (lambda: ef21_muon(TopK(k=2), LAYOUT, beta=0.0), r"beta=0\.0: must lie"),
    (lambda: muon(Identity(), LAYOUT, others_lr=float("nan")), "others_lr=nan: must be finite and not negative"),
    (lambda: dion(Identity(), LAYOUT, fraction=0.0), r"fraction=0\.0: must lie"),
    (lambda: dion(Identity(), LAYOUT, momentum=1.0), r"momentum=1\.0: must lie"),
)


@pytest.mark.parametrize(("m", "n", "r"), [(9, 9, 9), (16, 9, 16), (33, 1000, 2), (100, 3, 100)])
def test_a_matrix_of_many_gets_the_same_bits_as_alone(m: int, n: int, r: int) -> None:
    a, b = torch.randn(5, m, n), torch.randn(5, n, r)
    for function in (product, lambda a, b: product(b.mT, a.mT), lambda a, b: orthonormalize(product(a, b[..., :2]))):
        alone = [function(*(one.clone() for one in pair)) for pair in zip(a, b, strict=True)]
        assert torch.equal(function(a, b), torch.stack(alone))
