"""Compressors: what all keep, values against plain loops, and what is particular to each."""

import math

import numpy as np
import pytest
import torch
from reference import compressors as plain

from algorithms.compressors import (
    BinMeans,
    Blocks,
    ChunkTopK,
    ChunkTopKBins,
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
    ScaledSign,
    Sign,
    SignMean,
    TopK,
    UniformQuantize,
)
from algorithms.compressors.blocks import buckets
from algorithms.compressors.packing import pack, pack_by_torch, signed, unpack, unpack_by_torch
from algorithms.compressors.shard import whole as all_of
from algorithms.compressors.top_k import counted_by_one_scan, indices_by_search
from algorithms.utils.seeding import MessageKey
from experiments.contracts.test_compressor import TestCompressor

__all__ = ["TestCompressor"]

COMPRESSORS = [  # one a path through the code
    Identity(), ScaledSign(), ScaledSign("l2"), TopK(ratio=0.1), TopK(k=3, index_bits="packed"), RandomK(k=3),
    RandomK(k=3, unbiased=True), MinMaxUint8(), LogQuantize(3), UniformQuantize(5), UniformQuantize(16), Qsgd(7),
    Qsgd(300), Natural(), Sign(), Sign(zero=True), SignMean(4), Int4(10), Nf4(10), LinfDither(10), Nuqsgd(10),
    BinMeans(), ChunkTopK(3, 10), ChunkTopKBins(3, 10), Blocks(ScaledSign(), (30, 7)), Blocks(RandomK(k=3), (30, 7)),
]  # fmt: skip
KEY = MessageKey(seed=1, direction="up", round=2, workers=(0, 1, 2))
D = 37  # no multiple of 8: signs are padded


def _vectors() -> dict[str, torch.Tensor]:
    """Batches [2, 3, D] of every kind that has hurt a compressor before."""
    torch.manual_seed(0)
    normal = torch.randn(2, 3, D, dtype=torch.float64)
    sparse = normal * (torch.rand(2, 3, D) < 0.1)
    one = torch.zeros(2, 3, D, dtype=torch.float64)
    one[..., 5] = -2.5
    return {
        "random": normal,
        "sparse": sparse,
        "one coordinate": one,
        "constant": torch.full_like(normal, -0.7),
        "zero": torch.zeros_like(normal),
        "negative zero": torch.full_like(normal, -0.0),
        "huge": normal * 1e150,
        "tiny": normal * 1e-150,
        "heavy tailed": normal.sign() * normal.abs().exp() ** 3,
        "ties": normal.sign(),
    }


VECTORS = _vectors()
every_vector = pytest.mark.parametrize("x", VECTORS.values(), ids=VECTORS)


@pytest.fixture(params=COMPRESSORS, ids=str)
def compressor(request):
    return request.param


@every_vector
@pytest.mark.parametrize(
    ("norm", "formula"), [("l1", lambda r: 1 - r**2), ("l2", lambda r: 2 * (1 - r))], ids=["l1", "l2"]
)
def test_signs_have_the_error_their_formula_says(norm, formula, x):
    """With r = ‖x‖₁/(√d‖x‖): (1 − r²)‖x‖² for l1, 2(1 − r)‖x‖² for l2, which does not contract sparse vectors."""
    compressor, length = ScaledSign(norm), x.norm(dim=-1)
    assert compressor.contractive == (norm == "l1")
    if not x.any():
        assert not compressor(x).any()
        return
    error = (compressor(x) - x).square().sum(-1) / length**2
    expected = formula(x.abs().sum(-1) / (math.sqrt(D) * length))
    there = length > 0
    torch.testing.assert_close(error[there], expected[there], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_l2_signs_survive_squares_that_overflow(scale):
    x = torch.tensor([3.0, -4.0]) * scale
    torch.testing.assert_close(ScaledSign("l2")(x), torch.tensor([1.0, -1.0]) * (5 / math.sqrt(2) * scale))


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_least_numbers_of_a_dtype_are_compressed_to_finite_ones(compressor, dtype):
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    for scale in (least, torch.finfo(dtype).tiny):
        x = VECTORS["random"].sign().to(dtype) * scale
        sent = compressor(x, KEY)
        assert sent.isfinite().all()
        assert torch.equal(compressor.decode(compressor.encode(x, KEY), D), sent)


@pytest.mark.parametrize("name", [name for name in VECTORS if name not in ("huge", "tiny")])
@pytest.mark.parametrize(
    ("compressor", "reference"),
    [
        pytest.param(ScaledSign(), plain.scaled_sign, id="scaled_sign"),
        pytest.param(ScaledSign("l2"), plain.scaled_sign_l2, id="scaled_sign_l2"),
        pytest.param(TopK(k=2), plain.top_2, id="top_2"),
        pytest.param(Identity(), plain.identity, id="identity"),
    ],
)
def test_values_equal_the_plain_loops(compressor, reference, name):
    x = VECTORS[name]
    expected = torch.tensor([[reference(row) for row in batch] for batch in x.tolist()], dtype=x.dtype)
    torch.testing.assert_close(compressor(x), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("d", [1, 7, 8, 9, 68, 300, 1001])
def test_counted_bits_of_some_coordinates(d):
    k = max(1, 5 * d // 100)
    assert TopK(ratio=0.05).bits(d) == 64 * k
    assert RandomK(ratio=0.05).bits(d) == 32 * k + 64


@pytest.mark.parametrize(
    ("ratio", "d", "k"),
    [
        (None, 1000, 16),
        (0.29, 100, 29),
        (0.07, 100, 7),
        (0.016, 68, 1),
        (0.016, 11173962, 178783),
        (1e-5, 200000, 2),
        (0.1, 9, 1),
        (1, 9, 9),
    ],
)
def test_a_ratio_is_the_decimal_number_that_was_written(ratio, d, k):
    assert TopK(ratio=ratio).count(d) == RandomK(ratio=ratio).count(d) == k


@pytest.mark.parametrize(("d", "k"), [(1, 1), (9, 4), (1000, 16), (64, 64)])
def test_top_k_finds_on_a_gpu_what_it_finds_on_a_cpu(d, k):
    x = torch.randn(2, 3, d, generator=torch.Generator().manual_seed(0)).mul(3).round()  # with many ties
    flags = TopK(k=k)._keep(x, all_of(x.shape[-1]))
    assert torch.equal(counted_by_one_scan(flags), flags.cumsum(-1, dtype=torch.int32))
    assert torch.equal(indices_by_search(flags, k), flags.nonzero()[:, -1].view(2, 3, k))


def test_top_k_on_a_gpu_stays_inside_a_vector_with_nan():
    flags = torch.zeros(2, 5, dtype=torch.bool)
    assert indices_by_search(flags, 2).tolist() == [[4, 4], [4, 4]]


def test_top_k_keeps_the_lower_index_of_equal_magnitudes():
    payload = TopK(k=3).encode(torch.tensor([1.0, -2.0, 1.0, -1.0, 2.0, 1.0]))
    assert payload.indices.tolist() == [0, 1, 4]
    assert payload.indices.dtype == torch.int32
    assert payload.values.tolist() == [1.0, -2.0, 2.0]
    assert TopK(k=2).encode(torch.zeros(5)).indices.tolist() == [0, 1]


def test_random_k_sends_distinct_coordinates_and_the_receiver_finds_them_from_the_seed():
    x = torch.arange(1.0, 101.0)
    payload = RandomK(k=40).encode(x, MessageKey(5, "down", 1))
    assert payload.seed.dtype == torch.int64
    assert payload.seed.numel() == 1
    decoded = RandomK(k=40).decode(payload, 100)
    kept = decoded != 0
    assert kept.sum() == 40
    assert torch.equal(decoded[kept], x[kept])


@pytest.mark.parametrize("compressor", [RandomK(k=1), Qsgd(), Natural()], ids=str)
def test_what_is_random_needs_a_key(compressor):
    with pytest.raises(ValueError, match="key"):
        compressor(torch.ones(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScaledSign("linf"), "norm='linf'"),
        (lambda: TopK(k=0), "k=0"),
        (lambda: TopK(ratio=0.0), "ratio=0.0"),
        (lambda: TopK(ratio=1.5), "ratio=1.5"),
        (lambda: RandomK(k=-1), "k=-1"),
        (lambda: TopK(ratio=0.1, k=3), "k=3, ratio=0.1: top_k takes one of the two"),
        (lambda: RandomK(ratio=0.1, k=3), "random_k takes one of the two"),
        (lambda: TopK(k=8).check(7), "k=8: top_k sends between 1 and d = 7"),
        (lambda: RandomK(k=8).check(7), "k=8: random_k sends between 1 and d = 7"),
        (lambda: Blocks(Identity(), ()), "one block or more"),
        (lambda: Blocks(Identity(), (3, 0)), "one coordinate or more"),
        (lambda: Blocks(Identity(), (3, 4)).check(8), "blocks of 7 coordinates in all: the vectors have d = 8"),
        (lambda: Blocks(TopK(k=4), (7, 3)).check(10), "k=4: top_k sends between 1 and d = 3"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("d", [1, 8, 13, 64, 1000])
def test_packing_on_any_device_agrees_with_numpys(d):
    flags = torch.rand(3, 2, d) < 0.5
    packed = pack(flags)
    assert packed.shape == (3, 2, -(-d // 8))
    for unpacking in (unpack, unpack_by_torch):
        assert torch.equal(unpacking(packed, d), flags)
    assert torch.equal(pack_by_torch(flags), packed)
    assert packed[2, 1].tolist() == np.packbits(flags[2, 1].numpy()).tolist()


@pytest.mark.parametrize(
    ("d", "lead", "dtype", "magnitude"),
    [(1, (), torch.float32, 0.7), (8, (0,), torch.float64, 0.0), (13, (2, 3), torch.float32, float("inf"))],
)
def test_signs_by_the_byte_are_signs_one_by_one(d, lead, dtype, magnitude):
    flags, magnitudes = torch.rand(*lead, d) < 0.5, magnitude * (1 + torch.rand(*lead, 1, dtype=dtype))
    found = signed(pack(flags), d, magnitudes)
    expected = torch.where(flags, magnitudes, -magnitudes)
    assert (found.dtype, found.is_contiguous()) == (dtype, True)
    assert torch.equal(found, expected)
    assert torch.equal(found.signbit(), expected.signbit())


# `partition: layer`: blocks are compressed as if each were alone.

SIZES = (13, 8, 1, 15)
whole = pytest.mark.parametrize(
    "compressor", [c for c in COMPRESSORS if not isinstance(c, Blocks) and getattr(c, "k", None) is None], ids=str
)


@whole
def test_blocks_are_each_block_alone_in_a_row(compressor):
    x, blocks = VECTORS["random"].float() * torch.arange(1, D + 1), Blocks(compressor, SIZES)
    keys = [KEY._replace(direction=f"up/{block}") for block in range(len(SIZES))]
    alone = [compressor(part.contiguous(), key) for part, key in zip(x.split(SIZES, -1), keys, strict=True)]
    expected = torch.cat(alone, -1)
    assert torch.equal(blocks(x, KEY), expected)
    decoded = blocks.decode(blocks.encode(x, KEY), D)
    assert torch.equal(decoded, expected)
    assert decoded.dtype == torch.float32


def test_one_block_of_signs_has_one_scale():
    blocks = Blocks(ScaledSign(), (2, 1))
    assert blocks(torch.tensor([1.0, -3.0, 10.0])).tolist() == [2, -2, 10]
    assert blocks.bits(3) == 2 + 32 + 1 + 32
    blocks.check(3)
    assert hash(Blocks(ScaledSign(), [2, 1])) == hash(blocks)


MB = 2**18  # coordinates of 4 bytes


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((5,), (5,)),
        ((MB, MB, MB, 7), (MB, MB, MB + 7)),
        ((7, MB // 2, MB // 2, 3 * MB, 1), (7, MB, 3 * MB + 1)),
    ],
)
def test_buckets_are_filled_from_the_last_tensor_to_the_first(sizes, expected):
    assert buckets(sizes, mb=1) == expected
    assert buckets(sizes, mb=99) == (sum(sizes),)


@pytest.mark.parametrize("compressor", [RandomK(k=3), Qsgd(), Natural()], ids=str)
def test_blocks_of_one_size_draw_apart(compressor):
    x = torch.randn(20, generator=torch.Generator().manual_seed(0)).repeat(2)
    first, second = Blocks(compressor, (20, 20))(x, MessageKey(0, "down", 1)).split(20)
    assert not torch.equal(first, second)
