"""Quantizers with a scale a group, bin means, top-k by chunk and packed indices: against plain loops, and their
constants."""

import math

import pytest
import torch
from reference import groups as plain

from algorithms.compressors import BinMeans, ChunkTopK, ChunkTopKBins, Dynamic4, Int4, LinfDither, Nf4, Nuqsgd, TopK
from algorithms.utils.seeding import MessageKey

D = 37
KEY = MessageKey(seed=3, direction="down", round=5)


def _vectors() -> dict[str, torch.Tensor]:
    normal = torch.randn(D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return {
        "random": normal,
        "sparse": normal * (torch.arange(D) % 7 == 0),
        "zero": torch.zeros_like(normal),
        "constant": torch.full_like(normal, -0.7),
        "two-sided": normal.sign() * (3 + 0.1 * normal),
        "heavy tailed": normal.sign() * normal.abs().exp() ** 3,
        "huge": normal * 1e200,
        "tiny": normal * 1e-200,
        "a group of zeros": torch.where(torch.arange(D) < 10, 0.0, normal),
    }


VECTORS = _vectors()
every_vector = pytest.mark.parametrize("x", VECTORS.values(), ids=VECTORS)


def uniform(d: int) -> list[float]:
    """The numbers that the one message of KEY is rounded with."""
    generator = torch.Generator().manual_seed(KEY.seeds().item())
    return torch.rand(d, dtype=torch.float64, generator=generator).tolist()


def assert_is(ours: torch.Tensor, theirs: list[float]) -> None:
    largest = max(map(abs, theirs))
    torch.testing.assert_close(ours, torch.tensor(theirs, dtype=torch.float64), rtol=0, atol=1e-14 * largest)


@every_vector
@pytest.mark.parametrize("block", [1, 5, 64])
def test_int4_is_the_nearest_level_of_its_group(block, x):
    assert_is(Int4(block)(x), plain.int4(x.tolist(), block))


@every_vector
@pytest.mark.parametrize("block", [1, 5, 64])
@pytest.mark.parametrize(("kind", "values"), [(Nf4, plain.nf4()), (Dynamic4, plain.dynamic4())])
def test_four_bits_are_the_nearest_value_of_their_group(kind, values, block, x):
    assert kind.values == pytest.approx(values, rel=0, abs=2e-7)  # published as float32
    assert_is(kind(block)(x), plain.nearest(x.tolist(), kind.values, block))


@every_vector
@pytest.mark.parametrize(("block", "levels"), [(1, 7), (5, 300), (64, 1)])
def test_dither_follows_the_reference(block, levels, x):
    assert_is(LinfDither(block, levels)(x, KEY), plain.linf_dither(x.tolist(), levels, block, uniform(D)))


@every_vector
@pytest.mark.parametrize(("block", "levels"), [(1, 7), (5, 4), (64, 1)])
def test_nuqsgd_follows_the_reference(block, levels, x):
    assert_is(Nuqsgd(block, levels)(x, KEY), plain.nuqsgd(x.tolist(), levels, block, uniform(D)))


@every_vector
@pytest.mark.parametrize("bits", [2, 3, 8])
def test_bin_means_follow_the_reference(bits, x):
    assert_is(BinMeans(bits)(x), plain.bin_means(x.tolist(), bits))


@every_vector
@pytest.mark.parametrize(("k", "chunk"), [(1, 2), (3, 10), (4, 100), (30, 36)])
def test_the_largest_of_every_chunk_are_kept(k, chunk, x):
    assert_is(ChunkTopK(k, chunk)(x), plain.chunk_top_k(x.tolist(), k, chunk))


@every_vector
@pytest.mark.parametrize(("k", "chunk", "bits"), [(1, 2, 4), (3, 10, 2), (30, 36, 2)])
def test_the_largest_of_every_chunk_are_put_into_bins(k, chunk, bits, x):
    assert_is(ChunkTopKBins(k, chunk, bits)(x), plain.chunk_top_k_bins(x.tolist(), k, chunk, bits))


@every_vector
def test_one_chunk_is_top_k_and_all_of_a_chunk_is_everything(x):
    assert torch.equal(ChunkTopK(4, D)(x), TopK(k=4)(x))
    assert ChunkTopK(4, D).bits(D) == TopK(k=4, index_bits="packed").bits(D) == 4 * (32 + 6)
    assert torch.equal(ChunkTopK(5, 5)(x), x)


@pytest.mark.parametrize("block", [8, 64, 256])
def test_the_worst_group_of_int4_attains_its_constant(block):
    x = torch.full((block,), 1 / 14 - 1e-12, dtype=torch.float64)
    x[3] = 1
    error = (Int4(block)(x) - x).square().sum() / x.square().sum()
    assert float(error) == pytest.approx(1 - Int4(block).pi(block), rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "constants"), [(Nf4, (0.884, 0.792, 0.654)), (Dynamic4, (0.871, 0.839, 0.815))], ids=["nf4", "dynamic4"]
)
def test_the_worst_group_of_four_bits_attains_its_constant(kind, constants):
    """One coordinate at −1 and the others alike, wherever between −1 and 1 that is."""
    others = torch.linspace(-1, 1, 200_001, dtype=torch.float64)
    x = torch.cat([-torch.ones(1, dtype=torch.float64), others])
    errors = (kind(len(x))(x) - x).square()
    for block, pi in zip((64, 128, 256), constants, strict=True):
        lost = (errors[0] + (block - 1) * errors[1:]) / (1 + (block - 1) * others.square())
        assert 1 - float(lost.max()) == pytest.approx(kind(block).pi(1000), abs=1e-4)
        assert kind(block).pi(1000) == pytest.approx(pi, abs=1e-3)


@pytest.mark.parametrize(("block", "levels"), [(64, 1), (8, 7)])
def test_the_worst_group_of_dither_attains_its_variance(block, levels):
    """One coordinate at the maximum, the others at r/s with the r in (0, 1) that is worst."""
    r = (math.sqrt(1 + (block - 1) / levels**2) - 1) * levels**2 / (block - 1)
    x = torch.full((block,), r / levels, dtype=torch.float64)
    x[0] = 1
    compressor, keys = LinfDither(block, levels), MessageKey(0, "up", 1, tuple(range(4_000)))
    errors = (compressor(x.expand(4_000, -1), keys) - x).square().sum(-1) / x.square().sum()
    assert float(errors.mean()) == pytest.approx(compressor.omega(block), rel=0.04)


def test_what_contracts_and_what_does_not():
    assert [LinfDither(levels=s).contractive for s in (1, 7)] == [False, True]
    assert LinfDither(levels=7).omega(64) == pytest.approx(0.256, abs=5e-4)
    assert [Nuqsgd(levels=s).contractive for s in (2, 7)] == [False, True]
    assert Int4().pi(1000) == pytest.approx(0.757, abs=5e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Int4(0),
        lambda: LinfDither(levels=0),
        lambda: Nuqsgd(levels=128),
        lambda: BinMeans(1),
        lambda: BinMeans().check(2),
        lambda: ChunkTopK(k=5, chunk=4),
        lambda: ChunkTopK(k=1, chunk=1),
        lambda: TopK(index_bits=16),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(ValueError, match="="):
        make()
