"""Every selection of the k largest magnitudes, of equal ones the lower index, against a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from algorithms.compressors import TopK
from algorithms.compressors import top_k as largest

D = 70_001
PLACES = np.arange(D)
NOISE = np.abs(np.random.default_rng(0).standard_normal(D))
SIZES = {
    "normal": NOISE,
    "heavy-tailed": np.exp(6 * NOISE),
    "all equal": np.ones(D),
    "zero": np.zeros(D),
    "mostly zero": NOISE * (PLACES % 97 == 3),
    "few levels": np.ceil(4 * NOISE),
    "rising": PLACES / D,
    "large where the sample looks": np.where(PLACES % 2 == 0, 1 + NOISE, NOISE),
    "large where it does not": np.where(PLACES % 2 == 1, 1 + NOISE, NOISE),
    "in one place": np.where(PLACES > D - 600, 10 + NOISE, NOISE),
    "infinite": np.where(PLACES % 1000 == 7, np.inf, NOISE),
}


@pytest.mark.parametrize("name", SIZES)
def test_they_are_those_of_a_stable_sort(name: str) -> None:
    size = SIZES[name].astype(np.float32)
    order = np.argsort(-size, kind="stable")
    for k in (1, 1_120, D // 2, D):
        found = largest.largest_indices(torch.from_numpy(size).expand(2, 1, -1), k)
        assert found.shape == (2, 1, k)
        assert np.array_equal(found.flatten(0, 1).numpy(), [np.sort(order[:k])] * 2)


@pytest.mark.parametrize("name", SIZES)
def test_long_vectors_are_compressed_as_short_ones_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = torch.where(torch.arange(D) % 3 == 0, -1.0, 1.0)
    x, compressor = sign * torch.from_numpy(SIZES[name]), TopK()
    found, payload = compressor(x), compressor.encode(x)
    monkeypatch.setattr("algorithms.compressors.top_k.MANY", D + 1)
    assert found.numpy().tobytes() == compressor(x).numpy().tobytes()
    for one, other in zip(payload, compressor.encode(x), strict=True):
        assert torch.equal(one, other)


def test_nan_is_chosen_as_infinity_is() -> None:
    x = torch.from_numpy(NOISE).clone()
    x[5:9] = torch.nan
    for d in (D, 100):  # long and short vectors
        for vector in (x[:d], torch.full((d,), torch.nan)):
            expected = TopK(k=10).encode(vector.nan_to_num(nan=torch.inf, posinf=torch.inf)).indices
            assert torch.equal(TopK(k=10).encode(vector).indices, expected)
