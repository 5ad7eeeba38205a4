"""Compressors that see matrices: what all keep, and what is particular to each."""

import pytest
import torch

from algorithms.compressors import Blocks, RankK
from algorithms.layout import laid_out
from algorithms.randomness import Key
from experiments.conformance.test_compressor import TestCompressor

__all__ = ["TestCompressor"]

LAYOUT = laid_out([("tall", (5, 4), "matrix"), ("bias", (3,), "vector"), ("wide", (2, 7), "head")])
D = 37
COMPRESSORS = [RankK(1, LAYOUT), RankK(2, LAYOUT), RankK(9, LAYOUT)]
KEY = Key(seed=1, direction="up", round=2, workers=(0, 1, 2))


@pytest.fixture(params=COMPRESSORS, ids=lambda compressor: repr(compressor).partition(", layout")[0])
def compressor(request):
    return request.param


def batch(*lead: int) -> torch.Tensor:
    return torch.randn(*lead, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_what_sees_matrices_needs_their_shapes(compressor):
    compressor.check(D)
    with pytest.raises(ValueError, match="needs layout="):
        type(compressor)().check(D)
    with pytest.raises(ValueError, match="blocks of 37 coordinates in all; the vectors have d = 38"):
        compressor.check(D + 1)
    with pytest.raises(ValueError, match="layout: blocks of 37 coordinates in all"):
        Blocks(compressor, (20, 17)).check(D)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_least_numbers_of_a_dtype_are_compressed_to_finite_ones(compressor, dtype):
    sent = compressor(batch(2, 3).sign().to(dtype) * torch.finfo(dtype).tiny, KEY)
    assert sent.isfinite().all()


def test_payloads_lie_on_the_device_of_x(compressor):
    payload = compressor.encode(torch.zeros(3, D, device="meta"), KEY)
    assert {tensor.device.type for tensor in payload} == {"meta"}


def test_rank_k_is_a_projection_of_every_matrix():
    x = batch(2, 3)
    for rank in (1, 2):
        y = RankK(rank, LAYOUT)(x, KEY)
        for block in LAYOUT[::2]:
            m, c = block.of(x), block.of(y)
            assert (torch.linalg.matrix_rank(c) == rank).all()
            torch.testing.assert_close((c * (m - c)).sum((-2, -1)), torch.zeros(2, 3).double(), rtol=0, atol=1e-12)
        assert torch.equal(y[..., 20:23], x[..., 20:23])
    torch.testing.assert_close(RankK(9, LAYOUT)(x, KEY), x, rtol=1e-12, atol=1e-12)


def test_rank_k_gives_matrices_of_its_rank_back():
    left, right = batch(5)[..., :20].view(5, 20)[..., :10], batch(8)[..., :8]
    m = left[:, :2] @ right[:2, :4]
    x = torch.zeros(D, dtype=torch.float64)
    x[:20] = m.flatten()
    torch.testing.assert_close(RankK(2, LAYOUT)(x, KEY._replace(workers=None)), x, rtol=1e-12, atol=1e-12)


def test_rank_k_counts_its_factors():
    assert RankK(2, LAYOUT).bits(D) == 32 * (2 * (5 + 4) + 2 * (2 + 7) + 3)
    with pytest.raises(ValueError, match="rank=0"):
        RankK(0, LAYOUT)
    with pytest.raises(ValueError, match="draws from a key"):
        RankK(2, LAYOUT)(batch())
