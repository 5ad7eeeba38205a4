"""What payloads are packed of: bits, codes of a few bits, flags and ascending indices."""

import math

import numpy as np
import pytest
import torch

from algorithms.compressors import TopK, packing
from algorithms.compressors.elias_fano import pack_ascending, size, unpack_ascending
from algorithms.compressors.flags import indices_by_search, running_count_by_one_scan
from algorithms.compressors.shard import whole_shard as all_of


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 8, 9, 16])
@pytest.mark.parametrize("d", [1, 9, 300])
def test_packed_codes_are_their_binary_digits_in_a_row(bits, d):
    codes = torch.randint(0, 2**bits, (3, 2, d), generator=torch.Generator().manual_seed(bits))
    codes[0, 0] = 2**bits - 1
    packed = packing.pack_codes(codes, bits)
    assert packed.dtype == torch.uint8
    assert packed.shape == (3, 2, -(-bits * d // 8))
    digits = "".join(f"{code:0{bits}b}" for code in codes[2, 1].tolist())
    digits += "0" * (-len(digits) % 8)
    assert packed[2, 1].tolist() == [int(digits[k : k + 8], 2) for k in range(0, len(digits), 8)]
    assert torch.equal(packing.unpack_codes(packed, bits, d).long(), codes)


@pytest.mark.parametrize(
    ("bits", "d", "dtype"), [(3, 2**16, torch.int16), (9, 2**16 + 1, torch.int64), (3, 2**17 + 11, torch.int64)]
)
def test_long_vectors_are_packed_like_short_ones(bits, d, dtype):
    codes = torch.randint(0, 2**bits, (2, d), dtype=dtype)
    packed = packing.pack_codes(codes, bits)
    assert packed.shape == (2, -(-bits * d // 8))
    assert torch.equal(packing.unpack_codes(packed, bits, d).to(dtype), codes)
    start = 2**16 - 16
    tail = packing.pack_codes(codes[:, start:].contiguous(), bits)
    assert torch.equal(packed[:, start * bits // 8 :], tail)


@pytest.mark.parametrize("d", [1, 8, 13, 64, 1000])
def test_packing_on_any_device_agrees_with_numpys(d):
    flags = torch.rand(3, 2, d) < 0.5
    packed = packing.pack(flags)
    assert packed.shape == (3, 2, -(-d // 8))
    for unpacking in (packing.unpack, packing.unpack_by_torch):
        assert torch.equal(unpacking(packed, d), flags)
    assert torch.equal(packing.pack_by_torch(flags), packed)
    assert packed[2, 1].tolist() == np.packbits(flags[2, 1].numpy()).tolist()


@pytest.mark.parametrize(("d", "k"), [(1, 1), (9, 4), (1000, 16), (64, 64)])
def test_top_k_finds_on_a_gpu_what_it_finds_on_a_cpu(d, k):
    x = torch.randn(2, 3, d, generator=torch.Generator().manual_seed(0)).mul(3).round()  # with many ties
    flags = TopK(k=k)._keep(x, all_of(x.shape[-1]))
    assert torch.equal(running_count_by_one_scan(flags), flags.cumsum(-1, dtype=torch.int32))
    assert torch.equal(indices_by_search(flags, k), flags.nonzero()[:, -1].view(2, 3, k))


def test_a_search_for_too_many_flags_stays_inside_the_vector():
    flags = torch.zeros(2, 5, dtype=torch.bool)
    assert indices_by_search(flags, 2).tolist() == [[4, 4], [4, 4]]


@pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 70_001), (7, 7), (5, 8), (300, 70_001), (64, 1024)])
def test_ascending_indices_come_back_in_the_bits_that_are_counted(k, d):
    random = np.random.default_rng(k)
    rows = torch.from_numpy(np.stack([np.sort(random.choice(d, k, replace=False)) for _ in range(3)]))
    low = max(0, math.floor(math.log2(d / k)))
    upper = k + (d - 1) // 2**low
    expected = [0] * upper
    for place, index in enumerate(rows[0].tolist()):
        expected[index // 2**low + place] = 1
    packed = pack_ascending(rows.view(3, 1, k), d)
    assert packing.unpack(packed[0, 0], upper).int().tolist() == expected
    assert size(k, d) == upper + k * low
    assert packed.shape == (3, 1, -(-size(k, d) // 8))
    assert torch.equal(unpack_ascending(packed, k, d), rows.view(3, 1, k))
