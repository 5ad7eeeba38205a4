"""Compressors: what all keep, values against plain loops, and what is particular to each."""

import math
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from reference import compressors as plain
from reference import floats, groups, quantizers
from refusals import refusals
from small_support import uniform as of_key

from algorithms.compressors import (
    AdaptiveLevels,
    Bf16,
    BinMeans,
    Blocks,
    Chain,
    ChunkTopK,
    ChunkTopKBins,
    Compressor,
    Dynamic4,
    Fp8,
    Fp16,
    Identity,
    Int4,
    LinfDither,
    LogQuantize,
    MinMaxUint8,
    Natural,
    Nf4,
    Nuqsgd,
    Qsgd,
    RandomK,
    RankK,
    ScaledSign,
    Sign,
    SignMean,
    TopK,
    UniformQuantize,
)
from algorithms.compressors.blocks import bucket_sizes
from algorithms.core.channels import Direct
from algorithms.utils.layout import laid_out
from algorithms.utils.seeding import MessageKey
from experiments.contracts.test_compressor import TestCompressor, vectors

__all__ = ["TestCompressor"]

COMPRESSORS = [  # one a path through the code
    Identity(), ScaledSign(), ScaledSign("l2"), TopK(ratio=0.1), TopK(k=3, index_bits="packed"), RandomK(k=3),
    TopK(k=5, index_bits="elias_fano"),
    RandomK(k=3, unbiased=True), MinMaxUint8(), LogQuantize(3), UniformQuantize(5), UniformQuantize(16), Qsgd(7),
    Qsgd(300), Natural(), Sign(), Sign(zero=True), SignMean(4), Int4(10), Nf4(10), Dynamic4(10), LinfDither(10),
    Nuqsgd(10), Bf16(), Bf16(stochastic=True), Fp16(), Fp8(10), Fp8(10, "e5m2", stochastic=True), BinMeans(),
    ChunkTopK(3, 10), ChunkTopKBins(3, 10), Blocks(ScaledSign(), (30, 7)),
    Blocks(RandomK(k=3), (30, 7)), Chain(ChunkTopK(3, 10), ScaledSign()),
    Chain(RandomK(ratio=0.5, unbiased=True), Qsgd(7)), AdaptiveLevels(2.5, 8),
    Chain(RandomK(ratio=0.5), Chain(TopK(ratio=0.5, index_bits="packed"), Int4(10))),
]  # fmt: skip
KEY = MessageKey(seed=1, direction="up", round=2, workers=(0, 1, 2))
DOWN = MessageKey(seed=3, direction="down", round=5)
D = 37  # no multiple of 8: signs are padded


VECTORS = vectors(D)
NORMAL = VECTORS["random"][0, 0]
VALUED = {
    **{name: batch[0, 0] for name, batch in VECTORS.items()},
    "ones": torch.ones_like(NORMAL),
    "shifted": 1000 + NORMAL,
    "two-sided": NORMAL.sign() * (3 + 0.1 * NORMAL),
    "small range": 1e-9 * NORMAL,
    "sixteenths": torch.arange(-18, 19, dtype=torch.float64) / 16,
    "powers": 2.0 ** torch.arange(-18, 19, dtype=torch.float64),
    "a group of zeros": torch.where(torch.arange(D) < 10, 0.0, NORMAL),
}


@pytest.fixture(params=COMPRESSORS, ids=str)
def compressor(request):
    return request.param


def test_a_chain_compresses_the_values_that_are_sent():
    first, chain = RandomK(k=20), Chain(RandomK(k=20), Chain(TopK(k=5), Int4(64)))
    drawn = first(NORMAL, DOWN).nonzero().flatten().tolist()
    kept = sorted(sorted(drawn, key=lambda j: -abs(NORMAL[j]))[:5])
    expected = torch.zeros_like(NORMAL)
    expected[kept] = expected.new_tensor(groups.int4([NORMAL[j].item() for j in kept], 64))
    torch.testing.assert_close(chain(NORMAL, DOWN), expected, rtol=0, atol=1e-15)
    assert chain.bits(D) == 64 + 5 * 32 + 5 * 4 + 32
    with pytest.raises(ValueError, match="sends no floats"):
        Chain(ChunkTopKBins(3, 10), ScaledSign())


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_l2_signs_survive_squares_that_overflow(scale):
    x = torch.tensor([3.0, -4.0]) * scale
    torch.testing.assert_close(ScaledSign("l2")(x), torch.tensor([1.0, -1.0]) * (5 / math.sqrt(2) * scale))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_least_numbers_of_a_dtype_are_compressed_to_finite_ones(dtype):
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    for compressor in COMPRESSORS:
        for scale in (least, torch.finfo(dtype).tiny):
            x = VECTORS["random"].sign().to(dtype) * scale
            sent = compressor(x, KEY)
            assert sent.isfinite().all()
            assert torch.equal(compressor.decode(compressor.encode(x, KEY), D), sent)


uniform = partial(of_key, DOWN, D)
VALUES = [
    (ScaledSign(), plain.scaled_sign),
    (ScaledSign("l2"), plain.scaled_sign_l2),
    (TopK(k=2), plain.top_2),
    (Identity(), plain.identity),
    (MinMaxUint8(), quantizers.min_max_uint8),
    *((LogQuantize(b), partial(quantizers.log_quantize, bits=b)) for b in (2, 3, 8)),
    *((UniformQuantize(b), partial(quantizers.uniform_quantize, bits=b)) for b in (2, 5, 16)),
    *((Qsgd(s), lambda x, s=s: quantizers.qsgd(x, s, uniform())) for s in (1, 7, 32767)),
    (Natural(), lambda x: quantizers.natural(x, uniform())),
    *((Int4(b), lambda x, b=b: groups.int4(x, b)) for b in (1, 5, 64)),
    *((Nf4(b), lambda x, b=b: groups.nearest(x, Nf4.values, b)) for b in (5, 64)),
    *((Dynamic4(b), lambda x, b=b: groups.nearest(x, Dynamic4.values, b)) for b in (5, 64)),
    *((LinfDither(b, s), lambda x, b=b, s=s: groups.linf_dither(x, s, b, uniform()))
      for b, s in ((1, 7), (5, 300), (64, 1))),
    *((Nuqsgd(b, s), lambda x, b=b, s=s: groups.nuqsgd(x, s, b, uniform())) for b, s in ((1, 7), (5, 4), (64, 1))),
    *((kind(), partial(floats.cast, kind=one)) for kind, one in ((Bf16, floats.BF16), (Fp16, floats.FP16))),
    *((kind(stochastic=True), lambda x, one=one: floats.cast(x, one, uniform()))
      for kind, one in ((Bf16, floats.BF16), (Fp16, floats.FP16))),
    *((Fp8(b, "e4m3"), partial(floats.fp8, kind=floats.E4M3, block=b)) for b in (1, 5, 64)),
    (Fp8(5, "e5m2"), partial(floats.fp8, kind=floats.E5M2, block=5)),
    *((Fp8(5, name, stochastic=True), lambda x, one=one: floats.fp8(x, one, 5, uniform()))
      for name, one in (("e4m3", floats.E4M3), ("e5m2", floats.E5M2))),
    *((AdaptiveLevels(b, B), partial(groups.adaptive_levels, mean_bits=b, block=B))
      for b, B in ((1, 8), (3, 8), (8, 16))),
    *((BinMeans(b), partial(groups.bin_means, bits=b)) for b in (2, 3, 8)),
    *((ChunkTopK(k, s), lambda x, k=k, s=s: groups.chunk_top_k(x, k, s))
      for k, s in ((1, 2), (3, 10), (4, 100), (30, 36), (5, 5))),
    *((ChunkTopKBins(k, s, b), lambda x, k=k, s=s, b=b: groups.chunk_top_k_bins(x, k, s, b))
      for k, s, b in ((1, 2, 4), (3, 10, 2), (30, 36, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("compressor", "reference"), VALUES, ids=[str(compressor) for compressor, _ in VALUES])
def test_values_equal_the_plain_loops(compressor, reference):
    for name, x in VALUED.items():
        expected = torch.tensor(reference(x.tolist()), dtype=x.dtype)
        atol = 1e-14 * float(expected.abs().max())
        torch.testing.assert_close(compressor(x, DOWN), expected, rtol=1e-13, atol=atol, msg=name)


def test_the_published_values_of_four_bits():
    for kind, published in ((Nf4, groups.nf4()), (Dynamic4, groups.dynamic4())):
        assert kind.values == pytest.approx(published, rel=0, abs=2e-7)  # published as float32


@pytest.mark.parametrize(
    ("ratio", "d", "k"),
    [(None, 1000, 16), (0.29, 100, 29), (0.016, 11173962, 178783), (1e-5, 200000, 2), (0.1, 9, 1), (1, 9, 9)],
)
def test_a_ratio_is_the_decimal_number_that_was_written(ratio, d, k):
    assert TopK(ratio=ratio).count(d) == RandomK(ratio=ratio).count(d) == k


def test_mean_bits_are_the_decimal_number_that_was_written():
    """0.7 bits of 180 groups are 63 pairs; the product of the binary number and 180 lies below 126."""
    assert AdaptiveLevels(0.7, 8).bits(180 * 8) == 2 * 63 * 8 + 35 * 180


# `partition: layer`: blocks are compressed as if each were alone.

SIZES = (13, 8, 1, 15)


@pytest.mark.parametrize(
    "compressor", [c for c in COMPRESSORS if not isinstance(c, Blocks) and getattr(c, "k", None) is None], ids=str
)
def test_blocks_are_each_block_alone_in_a_row(compressor):
    x, blocks = VECTORS["random"].float() * torch.arange(1, D + 1), Blocks(compressor, SIZES)
    keys = [KEY._replace(direction=f"up/{block}") for block in range(len(SIZES))]
    alone = [compressor(part.contiguous(), key) for part, key in zip(x.split(SIZES, -1), keys, strict=True)]
    expected = torch.cat(alone, -1)
    assert torch.equal(blocks(x, KEY), expected)
    decoded = blocks.decode(blocks.encode(x, KEY), D)
    assert torch.equal(decoded, expected)
    assert decoded.dtype == torch.float32


def test_numbers_that_draws_alone_would_not_tell():
    assert (Qsgd(1).omega(4), Qsgd(4).omega(4)) == (2, 0.25)
    assert LinfDither(10).omega(4) == LinfDither(4).omega(4) < LinfDither(10).omega(10)
    assert [TopK(k=3, index_bits="packed").bits(d) for d in (8, 9)] == [3 * (32 + 3), 3 * (32 + 4)]
    # l = 1: a low bit each, and a bitmap of 3 + ⌊7/2⌋ bits
    assert TopK(k=3, index_bits="elias_fano").bits(8) == 3 * 32 + 3 + 6
    assert round(TopK(index_bits="elias_fano").bits(10**6) / 16_000 - 32, 2) == 7.95


MB = 2**18  # coordinates of 4 bytes


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((5,), (5,)), ((MB, MB, MB, 7), (MB, MB, MB + 7)), ((7, MB // 2, MB // 2, 3 * MB, 1), (7, MB, 3 * MB + 1))],
)
def test_buckets_are_filled_from_the_last_tensor_to_the_first(sizes, expected):
    assert bucket_sizes(sizes, mb=1) == expected
    assert bucket_sizes(sizes, mb=99) == (sum(sizes),)


# Quantizers


def test_min_max_codes():
    payload = MinMaxUint8().encode(torch.tensor([-1.0, 0.0, 0.25, 1.0]))
    assert payload.codes.tolist() == [0, 127, 159, 255]  # S = 127.5 − 6·10⁻⁶, U = 127, L = −128: −1·S rounds to −127
    ones = torch.ones(D)  # where float32 cannot count the levels, Bagua's kernel wraps 256 to 0
    payload = MinMaxUint8().encode(ones)
    assert payload.codes.tolist() == [255] * D
    torch.testing.assert_close(MinMaxUint8().decode(payload, D), ones)


def test_log_quantize_by_hand():
    x = torch.tensor([4.0, -3.0, 2.9, 1.5, -1.49, 0.5, 0.49, -0.5, 0.0])
    assert LogQuantize(3)(x).tolist() == [4, -4, 2, 2, -1, 1, 0, -1, 0]  # 3 = 4·3/4, 1.5 and 0.5 are ties
    assert LogQuantize(2)(x).tolist() == [4, -4, 4, 0, 0, 0, 0, 0, 0]
    assert LogQuantize(3).encode(x).codes.tolist() == [0b11000010, 0b11010101, 0b00011010, 0b01100000]


def test_natural_at_the_ends_of_float32():
    smallest, largest = 2.0**-126, 2.0**127
    x = torch.tensor([smallest / 4, -smallest / 4, smallest, largest, 1.5 * largest, -1e200], dtype=torch.float64)
    draws = Natural()(x.expand(1000, 6), MessageKey(0, "up", 1, tuple(range(1000))))
    assert set(draws[:, :2].abs().flatten().tolist()) == {0.0, smallest}
    assert (draws[:, 0] / smallest).mean().item() == pytest.approx(1 / 4, abs=0.06)
    assert (draws[:, 2:] == torch.tensor([smallest, largest, largest, -largest])).all()
    assert torch.equal(Natural()(x[2:4].float(), DOWN), x[2:4].float())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_shows(bad):
    x = torch.randn(9)
    x[3] = bad
    for compressor in (MinMaxUint8(), LogQuantize(), UniformQuantize(), Qsgd(), Natural(), Bf16(), Fp16(), Fp8()):
        assert not compressor.decode(compressor.encode(x, DOWN), 9).isfinite().all()


@pytest.mark.parametrize(
    ("compressor", "kind", "dtype"),
    [
        (Bf16(), floats.BF16, torch.bfloat16),
        (Fp16(), floats.FP16, torch.float16),
        (Fp8(2**17), floats.E4M3, torch.float8_e4m3fn),
        (Fp8(2**17, "e5m2"), floats.E5M2, torch.float8_e5m2),
    ],
    ids=str,
)
def test_casts_around_halfway_between_two_numbers(compressor, kind, dtype):
    """Halfway goes to the even one, and what is next to it to the nearer one, for numbers of every exponent."""
    codes = torch.arange(2 ** (8 * dtype.itemsize - 1)).to({1: torch.uint8, 2: torch.int16}[dtype.itemsize])
    numbers = codes.view(dtype).float()
    numbers = numbers[numbers.isfinite()]
    halfway = (numbers[:-1] + numbers.diff() / 2)[:: max(len(numbers) // 700, 1)]
    above, below = (torch.nextafter(halfway, torch.tensor(end)) for end in (torch.inf, 0.0))
    x = torch.cat([numbers[-1:], halfway, -halfway, above, below]).double()
    expected = [floats.nearest(one, *kind) for one in x.tolist()]
    assert compressor(x).tolist() == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_ends_of_16_bit_floats():
    x = torch.tensor([65504.0, 65520.0, 1e30, -1e5, 2**-25, 1.01 * 2**-25, -(2**-26), 3.4e38])
    assert Fp16()(x).tolist() == [65504, 65504, 65504, -65504, 0, 2**-24, 0, 65504]
    most = torch.finfo(torch.bfloat16).max
    assert Bf16()(x[-1:]).tolist() == [most]
    assert Bf16(stochastic=True)(torch.tensor([1e300, 1e-300], dtype=torch.float64), DOWN).tolist() == [most, 0]


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
    worst = torch.tensor([1.0] + [1 / 14 - 1e-12] * 63, dtype=torch.float64)  # which attains it
    lost = (Int4(64)(worst) - worst).square().sum() / worst.square().sum()
    assert float(lost) == pytest.approx(1 - Int4(64).pi(64), rel=1e-9)


LAYOUT = laid_out([("weight", (4, 5), "matrix")])


@pytest.mark.parametrize("compressor", [RandomK(k=3), Qsgd(), RankK(1, LAYOUT)], ids=repr)
def test_draws_are_from_the_cpu_whatever_the_default_device(compressor: Compressor) -> None:
    x, key = torch.arange(20.0), MessageKey(1, "up", 1, None)
    expected = compressor(x, key)
    with torch.device("meta"):
        assert torch.equal(compressor(x, key), expected)


@dataclass(frozen=True)
class Listed(Identity):
    places: list[int]


test_nonsense_is_refused = refusals(
    (lambda: TopK(k=0), "k=0"),
    (lambda: RandomK(k=3, unbiased=True).pi(30), "has no known contraction constant"),
    (lambda: TopK(index_bits=16), "index_bits=16: must be 'packed' or 'elias_fano' or 32"),  # type: ignore
    (lambda: ScaledSign("linf"), "norm='linf': must be 'l1' or 'l2'"),  # type: ignore
    (lambda: TopK(ratio=1.5), "ratio=1.5"),
    (lambda: RandomK(ratio=0.1, k=3), "k=3, ratio=0.1: random_k takes one of the two"),
    (lambda: TopK(k=8).check(7), "k=8: top_k sends between 1 and d = 7"),
    (lambda: TopK().check(2**31 + 1), "d = 2147483649: top_k takes at most 2.31 coordinates; try partition=layer"),
    (lambda: Direct(Listed([1])).check(3), "unhashable type: 'list'; make it a frozen dataclass, and its options"),
    (lambda: Blocks(Identity(), (3, 0)), "at least one coordinate"),
    (lambda: Blocks(Identity(), (3, 4)).check(8), "blocks of 7 coordinates in all: the vectors have d = 8"),
    (lambda: Blocks(TopK(k=4), (7, 3)).check(10), "k=4: top_k sends between 1 and d = 3"),
    (lambda: UniformQuantize(17), "bits=17: uniform_quantize takes 2 to 16 bits"),
    (lambda: LogQuantize(bits=1), "bits=1: log_quantize takes 2 to 8 bits"),
    (lambda: Qsgd(32768), "levels=32768"),
    (lambda: Int4(0), "block=0"),
    (lambda: LinfDither(levels=0), "levels=0"),
    (lambda: Nuqsgd(levels=128), "levels=128"),
    (lambda: Fp8(format="e3m4"), "format='e3m4': must be 'e4m3' or 'e5m2'"),  # type: ignore
    (lambda: BinMeans(1), "bits=1"),
    (lambda: AdaptiveLevels(block=12), "block=12: must be a multiple of 8"),
    (lambda: AdaptiveLevels(0.5).check(100), "mean_bits=0.5: no two bits for 2 groups"),
    (lambda: BinMeans().check(2), "two become 0"),
    (lambda: ChunkTopK(k=5, chunk=4), "k=5, chunk=4"),
    *((partial(one, torch.ones(3)), "draws from a key") for one in (RandomK(k=1), Qsgd(), Natural(), Bf16(True))),
)
