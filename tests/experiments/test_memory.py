"""What is said where memory would not suffice."""

import pytest
from run_support import SMALL, go, timeless, where

from common.errors import DataError
from data import limits


def test_a_run_that_cannot_fit_is_refused_before_its_first_round(
    results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 22 vectors of two workers and 30 coordinates a step size; data are there already."""
    command = (*SMALL, results, "cluster.workers=2", "lr=[0.01,0.03,0.1]")
    needed = 22 * 3 * 30 * 8
    room = {"free": needed - 1}
    monkeypatch.setattr(limits, "free_memory", lambda: room["free"])
    with pytest.raises(DataError) as refused:
        go(*command)
    assert str(refused.value).startswith(
        "a round of 2 workers and 3 step sizes with vectors of 30 numbers, in 1 process, takes about "
        "15.5 KiB of memory, and 15.5 KiB are free: take fewer step sizes at a time, fewer workers a process"
    )
    assert not where(*command).exists()
    room["free"] = needed
    assert len(timeless(go(*command))) == 3 * 5
