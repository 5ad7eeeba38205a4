"""Fixtures of the tests of clusters, which share tests/experiments/run_support.py."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from algorithms.compressors import shard

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset all variables of launchers."""
    from cluster_support import LAUNCHERS  # needs the path above

    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """Run the test file's `everything` on RANKS. Returns the result of every rank."""
    from cluster_support import results_of

    return results_of(tmp_path_factory.mktemp("ranks"), request.module.RANKS, request.module.everything)


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["rank 0", "sharded"])
def context(request: pytest.FixtureRequest) -> Iterator[Callable]:
    """The context of every test: one server, or one on every rank."""
    from cluster_support import small_shards

    here = small_shards if request.param else nullcontext
    with here():
        yield here


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make vectors of 30 coordinates have several pieces."""
    monkeypatch.setattr(shard, "LEAST", 8)
