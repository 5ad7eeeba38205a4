"""`partition: layer`: blocks are compressed as if each were alone."""

from __future__ import annotations

import pytest
import torch

from algorithms.compressors import (
    Blocks,
    Identity,
    LogQuantize,
    MinMaxUint8,
    Natural,
    Qsgd,
    RandomK,
    ScaledSign,
    TopK,
    UniformQuantize,
    tensors,
)
from algorithms.compressors.base import payload_bytes
from algorithms.randomness import Key

SIZES = (13, 8, 1, 8)
D = sum(SIZES)
KEY = Key(seed=1, direction="up", round=2, workers=(0, 1, 2))
COMPRESSORS = [
    Identity(),
    ScaledSign(),
    ScaledSign("l2"),
    TopK(ratio=0.3),
    RandomK(ratio=0.3),
    RandomK(ratio=0.3, unbiased=True),
    MinMaxUint8(),
    LogQuantize(),
    UniformQuantize(5),
    Qsgd(),
    Natural(),
]
every_compressor = pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)


def _x(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 3, D, dtype=dtype, generator=generator) * torch.arange(1, D + 1)


@every_compressor
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_are_each_block_alone_in_a_row(compressor, dtype):
    x, blocks = _x(dtype), Blocks(compressor, SIZES)
    keys = [KEY._replace(direction=f"up/{block}") for block in range(len(SIZES))]
    alone = [compressor(part.contiguous(), key) for part, key in zip(x.split(SIZES, -1), keys, strict=True)]
    expected = torch.cat(alone, -1)
    assert torch.equal(blocks(x, KEY), expected)
    decoded = blocks.decode(blocks.encode(x, KEY), D)
    assert torch.equal(decoded, expected)
    assert decoded.dtype == dtype


@every_compressor
def test_bits_and_bytes_are_summed_over_blocks(compressor):
    blocks = Blocks(compressor, SIZES)
    assert blocks.bits(D) == sum(compressor.bits(size) for size in SIZES)
    expected = sum(payload_bytes(compressor, size, torch.float32) for size in SIZES)
    assert payload_bytes(blocks, D, torch.float32) == expected
    assert sum(tensor.nbytes for tensor in tensors(blocks.encode(_x(torch.float32), KEY))) == 6 * expected
    assert (blocks.contractive, blocks.unbiased) == (compressor.contractive, compressor.unbiased)


def test_one_block_of_signs_has_one_scale():
    x = torch.tensor([1.0, -3.0, 10.0])
    assert Blocks(ScaledSign(), (2, 1))(x).tolist() == [2, -2, 10]
    assert Blocks(ScaledSign(), (2, 1)).bits(3) == 2 + 32 + 1 + 32
    Blocks(TopK(k=1), (2, 1)).check(3)
    assert hash(Blocks(ScaledSign(), [2, 1])) == hash(Blocks(ScaledSign(), (2, 1)))


@pytest.mark.parametrize("compressor", [RandomK(k=3), Qsgd(), Natural()], ids=str)
def test_blocks_of_one_size_draw_apart(compressor):
    x = torch.randn(20, generator=torch.Generator().manual_seed(0)).repeat(2)
    first, second = Blocks(compressor, (20, 20))(x, Key(0, "down", 1)).split(20)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Blocks(Identity(), ()), "one block or more"),
        (lambda: Blocks(Identity(), (3, 0)), "one coordinate or more"),
        (lambda: Blocks(Identity(), (3, 4)).check(8), "blocks of 7 coordinates in all: the vectors have d = 8"),
        (lambda: Blocks(TopK(k=4), (7, 3)).check(10), "k=4: top_k sends between 1 and d = 3"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
