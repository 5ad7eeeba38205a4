"""How many threads `threads: null` is, and that nothing but the run notices."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from run_support import SMALL, go, where

from experiments.training import threads as module
from experiments.training.threads import SHARE, own_cores
from experiments.training.threads import SMALL as LARGE


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody said how many, on a machine of 4 cores; torch has as many afterwards as before."""
    for name in ("OMP_NUM_THREADS", SHARE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "cores", lambda: 4)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, 4), ({SHARE: "2", "OMP_NUM_THREADS": "2"}, 2), ({"OMP_NUM_THREADS": "3"}, None)],
)
def test_a_users_wish_is_told_from_a_sweeps_share(environment: dict[str, str], expected: int | None) -> None:
    assert own_cores(environment) == expected


@pytest.mark.parametrize(
    ("overrides", "variables", "threshold", "expected"),
    [
        ((), {SHARE: "2", "OMP_NUM_THREADS": "2"}, 20 * 30, 2),  # n · d of breast_cancer: as if that were large
        ((), {}, 20 * 30 + 1, 1),
        (("lr=[0.1,0.2]",), {}, 20 * 30 + 1, 4),
        (("threads=2",), {"OMP_NUM_THREADS": "3"}, LARGE, 2),
    ],
)
def test_what_a_run_takes_and_records(
    overrides: tuple[str, ...],
    variables: dict[str, str],
    threshold: int,
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "SMALL", threshold)
    torch.set_num_threads(3)  # what torch itself would take
    words = (*SMALL, "rounds=1", *overrides, f"results_dir={tmp_path}")
    path = go(*words)
    assert path == where(*words)
    assert json.loads((path / "environment.json").read_text())["threads"] == expected
    assert torch.get_num_threads() == (2 if "threads=2" in overrides else 3)


def test_auto_is_the_default_and_null_is_auto() -> None:
    assert {where(*SMALL), where(*SMALL, "threads=2")} == {where(*SMALL)}
    assert os.environ.get(SHARE) is None
