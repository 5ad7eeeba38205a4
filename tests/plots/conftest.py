"""Fixtures around every test that draws."""

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from plots.runs import columns


@pytest.fixture(autouse=True)
def without_windows() -> Iterator[None]:
    """Draw without a screen, and leave neither figures nor settings behind."""
    with mpl.rc_context():
        plt.switch_backend("Agg")
        yield
        plt.close("all")


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the columns that users' tasks declared."""
    monkeypatch.setattr(columns, "_declared", {})
