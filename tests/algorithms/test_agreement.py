"""What ranks compare: a digest that sees every bit, and whether a vector is finite. tests/cluster has the ranks."""

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor

from algorithms.comm.consistency import Disagreement, digest, is_finite

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
ROW = 8 * 61 * 64  # bytes of one row in every block of the digest


def drawn(d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A vector [d]."""
    return torch.randn(d, generator=torch.Generator().manual_seed(d)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_flipped_bit_anywhere_changes_the_digest(dtype: torch.dtype) -> None:
    generator, row = torch.Generator().manual_seed(0), ROW // dtype.itemsize
    for d in (1, 7, row - 1, row, 3 * row + 5):
        x = drawn(d, dtype)
        expected = digest(x)
        assert digest(x.clone()) == expected
        places = {0, d - 1, *torch.randint(d, (5,), generator=generator).tolist()}
        for place in places:
            for bit in (0, 8 * dtype.itemsize - 2, 8 * dtype.itemsize - 1):
                changed = x.clone()
                bits = changed.view(INTEGERS[dtype.itemsize])
                bits[place] ^= torch.tensor(1).bitwise_left_shift(bit).to(bits.dtype)
                assert digest(changed) != expected, (d, place, bit)


def test_coordinates_exchanged_and_a_zero_of_another_sign_change_it() -> None:
    d = 10 * ROW // 4
    x = drawn(d)
    x[5] = 0.0
    expected = digest(x)
    for one, other in ((0, 1), (1, 3), (7, d - 1), (100, 100 + 2048), (1000, 1000 + 65 * 2)):
        changed = x.clone()
        changed[[one, other]] = x[[other, one]]
        assert digest(changed) != expected
    changed = x.clone()
    changed[5] = -0.0
    assert digest(changed) != expected
    signs = x.clone()  # only the top bit differs: linear weights would not see it
    signs[[11, 19]] = torch.tensor([2.0, -2.0])
    swapped = signs.clone()
    swapped[[11, 19]] = torch.tensor([-2.0, 2.0])
    assert digest(signs) != digest(swapped)
    assert digest(torch.zeros(5)) != digest(torch.zeros(6))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_vector_is_finite_where_every_coordinate_is(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    for d in (1, 2, 1000):
        x = torch.full((d,), largest, dtype=dtype)  # whose sum and squares are not
        x[d // 2] = -largest
        assert is_finite(x)
        for value in (math.nan, math.inf, -math.inf):
            for place in {0, d // 2, d - 1}:
                changed = x.clone()
                changed[place] = value
                assert not is_finite(changed)


def test_a_disagreement_says_who_when_and_what_also_from_another_process() -> None:
    error = Disagreement(2, 7, "lr", "0.1 instead of 0.2")
    for same in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(same) == "step 7: rank 2 differs from the others in lr: 0.1 instead of 0.2"
        assert (same.rank, same.step, same.quantity) == (2, 7, "lr")
    assert isinstance(error, RuntimeError)
