"""Compressors that see matrices: what all keep, and what is particular to each."""

import pytest
import torch
from reference import matrices as plain

from algorithms.compressors import Blocks, DctTopK, RankK
from algorithms.utils.layout import laid_out
from algorithms.utils.seeding import MessageKey
from experiments.contracts.test_compressor import TestCompressor

__all__ = ["TestCompressor"]

LAYOUT = laid_out([("tall", (5, 4), "matrix"), ("bias", (3,), "vector"), ("wide", (2, 7), "head")])
D = 37
COMPRESSORS = [RankK(2, LAYOUT), *(DctTopK(2, 4, dct, LAYOUT) for dct in (True, False))]
KEY = MessageKey(seed=1, direction="up", round=2, workers=(0, 1, 2))


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


@pytest.mark.parametrize("rank", [1, 2, 9])
def test_rank_k_follows_the_reference(rank):
    """By loops: P = orth(MQ) by Gram and Schmidt, C(M) = P(MᵀP)ᵀ."""
    x, expected = batch(3), []
    for row, seed in zip(x.tolist(), KEY.seeds().tolist(), strict=True):
        shapes = [(block.rows, block.columns, min(rank, block.rows, block.columns)) for block in LAYOUT[::2]]
        count = sum(n * r for _, n, r in shapes)
        drawn = torch.randn(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).tolist()
        out = list(row)
        for block, (m, n, r) in zip(LAYOUT[::2], shapes, strict=True):
            matrix = plain.as_matrix(row[block.offset : block.offset + m * n], (m, n))
            q = [drawn[j * r : (j + 1) * r] for j in range(n)]
            drawn = drawn[n * r :]
            p = plain.orthonormalised(plain.product(matrix, q))
            right = plain.product(plain.transposed(matrix), p)
            out[block.offset : block.offset + m * n] = plain.flat(plain.product(p, plain.transposed(right)))
        expected.append(out)
    found = RankK(rank, LAYOUT)(x, KEY)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


def test_rank_k_needs_a_rank_and_a_key():
    with pytest.raises(ValueError, match="rank=0"):
        RankK(0, LAYOUT)
    with pytest.raises(ValueError, match="draws from a key"):
        RankK(2, LAYOUT)(batch())


def test_dct_top_k_contracts_as_its_largest_chunk():
    """1 × 4 five times, 3 × 1, and 2 × 1 seven times."""
    assert DctTopK(2, 4, True, LAYOUT).pi(D) == 0.5
    with pytest.raises(ValueError, match="k ≥ 1 and 2 ≤ side"):
        DctTopK(k=0)
