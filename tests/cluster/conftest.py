"""Where the tests of clusters put runs; they share tests/experiments/run_support.py."""

import os
import sys
from pathlib import Path

import pytest

from algorithms.compressors import shard

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))


@pytest.fixture
def results(tmp_path: Path) -> str:
    """The override that puts runs into the test's folder."""
    return f"results_dir={tmp_path / 'results'}"


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of a launcher's variables is set."""
    from cluster_support import LAUNCHERS  # which needs the path above

    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of 30 coordinates have several pieces."""
    monkeypatch.setattr(shard, "LEAST", 8)
