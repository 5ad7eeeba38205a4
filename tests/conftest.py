"""What holds of every test."""

from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parent / "docs"

torch.set_num_threads(1)  # several threads add in another order, and tests compare bit for bit


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of documents and those in a browser."""
    for item in items:
        if item.path.is_relative_to(DOCS) or "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.docs)
