"""The k largest found by a sample's bound, against a stable sort of everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from algorithms.compressors import TopK
from algorithms.compressors import top_k as largest
from algorithms.compressors.shard import whole

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


@pytest.mark.parametrize("k", [1, 2, 500, 1_120, D // 2, D - 1, D])
@pytest.mark.parametrize("name", SIZES)
def test_they_are_those_of_a_stable_sort(name: str, k: int) -> None:
    size = SIZES[name].astype(np.float32)
    expected = np.sort(np.argsort(-size, kind="stable")[:k])
    found = largest.largest(torch.from_numpy(size).expand(2, 1, -1), k)
    assert found.shape == (2, 1, k)
    assert np.array_equal(found[0, 0].numpy(), expected)
    assert np.array_equal(found[1, 0].numpy(), expected)


def test_a_sample_that_misleads_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both what the bound leaves out and what it lets in: with this sample all 35,000 odd places are passed by."""
    monkeypatch.setattr(largest, "_SAMPLE", D // 2)
    for name in ("large where the sample looks", "large where it does not"):
        size = SIZES[name]
        expected = np.sort(np.argsort(-size, kind="stable")[:300])
        assert np.array_equal(largest.largest(torch.from_numpy(size), 300).numpy(), expected)


@pytest.mark.parametrize("name", SIZES)
def test_long_vectors_are_compressed_as_short_ones_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = torch.where(torch.arange(D) % 3 == 0, -1.0, 1.0)
    x, compressor = sign * torch.from_numpy(SIZES[name]), TopK()
    found, payload = compressor(x), compressor.encode(x)
    monkeypatch.setattr("algorithms.compressors.top_k.MANY", D + 1)
    assert found.numpy().tobytes() == compressor(x).numpy().tobytes()
    for one, other in zip(payload, compressor.encode(x), strict=True):
        assert torch.equal(one, other)
    assert int(compressor._keep(x, whole(D)).sum()) == compressor.count(D)


def test_a_vector_with_nan_has_a_payload_of_the_usual_size() -> None:
    x = torch.from_numpy(NOISE).clone()
    x[5:9] = torch.nan
    for vector in (x, torch.full_like(x, torch.nan)):
        assert TopK().encode(vector).indices.shape == (TopK().count(D),)
