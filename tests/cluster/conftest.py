"""Where the tests of clusters put runs; they share tests/experiments/run_support.py."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))


@pytest.fixture
def results(tmp_path: Path) -> str:
    """The override that puts runs into the test's folder."""
    return f"results_dir={tmp_path / 'results'}"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums are added up in another order by several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of a launcher's variables is set."""
    from cluster_support import LAUNCHERS  # which needs the path above

    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)
