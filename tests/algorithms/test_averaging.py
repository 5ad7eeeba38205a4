"""The mean over workers: the same bits one after the other, stacked, and in a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from algorithms.core.aggregation import mean_of, mean_of_stacked


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 7), (5, 33), (2, 20, 68), (3, 17, 1), (40, 100), (1, 300, 3)])
def test_workers_are_added_in_order(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    x[..., 0] = -0.0
    total = x.numpy()[..., 0, :].copy()
    for worker in range(1, shape[-2]):
        total = total + x.numpy()[..., worker, :]
    expected = (total / np.array(shape[-2], total.dtype)).tobytes()
    before = x.clone()
    for found in (mean_of(x.unbind(-2)), mean_of_stacked(x), mean_of_stacked(x.mT.contiguous().mT)):
        assert found.numpy().tobytes() == expected  # the sign of zero too
    assert torch.equal(x, before)
