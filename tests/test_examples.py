"""The example of a user's package; tests/docs/test_documented_commands.py runs the commands of its README."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from docs_support import ROOT, blocks

EXAMPLES = ROOT / "examples"


@pytest.fixture
def my_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PYTHONPATH=examples has it, in this process."""
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.slow
def test_the_test_it_shows_passes(tmp_path: Path) -> None:
    [block] = blocks(EXAMPLES / "my_package" / "README.md", "python")
    (tmp_path / "test_mine.py").write_text(block.body)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--strict-markers", tmp_path]
    known = os.environ | {"PYTHONPATH": "examples"}
    done = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# What the examples compute, by plain loops


def test_block_signs_are_scaled_signs_of_blocks(my_package: None) -> None:
    from my_package.compressor import BlockSign

    x = torch.randn(2, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.zeros_like(x)
    for row in range(2):
        for begin in (0, 4, 8):
            block = x[row, begin : begin + 4]
            expected[row, begin : begin + 4] = block.abs().mean() * block.sign()
    torch.testing.assert_close(BlockSign(block=4)(x), expected)
    assert BlockSign(block=4).bits(11) == 11 + 3 * 32
    with pytest.raises(ValueError, match="block=0"):
        BlockSign(block=0)


def test_workers_send_an_average_of_their_gradients(my_package: None) -> None:
    from my_package.algorithm import ef21_momentum

    from algorithms.compressors import Identity
    from algorithms.core.update_rules import SGD
    from experiments.cluster.base import Simulated

    cluster = Simulated(ef21_momentum(Identity(), SGD(), eta=0.25), 2, seed=0)
    x = torch.zeros(1, 3, dtype=torch.float64)
    state, m, expected = cluster.start(x), None, x[0]
    for t in range(1, 6):
        gradients = torch.randn(1, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(t))
        m = gradients[0] if m is None else 0.75 * m + 0.25 * gradients[0]
        expected = expected - 0.1 * m.mean(0)
        state = cluster.round(gradients, state, 0.1, t)
        torch.testing.assert_close(state.replica.x[0], expected)
    with pytest.raises(ValueError, match="eta=0"):
        ef21_momentum(Identity(), SGD(), eta=0)


def test_the_robust_loss_is_cauchys(my_package: None) -> None:
    from my_package.dataset import wine
    from my_package.task import RobustRegression

    dataset = wine()
    task = RobustRegression(dataset, workers=178, seed=0, scale=0.7)  # so many that each has one row
    x = torch.linspace(-1, 1, 13, dtype=torch.float64)
    residuals = torch.from_numpy(dataset.labels - dataset.features.toarray() @ x.numpy())
    expected = (0.7**2 / 2 * torch.log(1 + residuals**2 / 0.7**2)).mean()
    measured = task.evaluate(x[None], task.start_statistics()[None, 0])
    assert measured["train_loss"].item() == pytest.approx(expected.item(), rel=1e-12)
    assert (dataset.labels == 1).sum() == 71
