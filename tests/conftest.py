"""Settings and fixtures of all tests."""

import os
from pathlib import Path

import pytest
import torch

if "TEST_GPU" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # device=auto then takes the CPU, here and in what tests start

DOCS = Path(__file__).parent / "docs"

torch.set_num_threads(1)  # several threads add in another order, and tests compare bit for bit


@pytest.fixture
def results(tmp_path: Path) -> str:
    """The override that puts runs into the test's folder."""
    return f"results_dir={tmp_path / 'results'}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of documents and those in a browser."""
    for item in items:
        if item.path.is_relative_to(DOCS) or "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.docs)
