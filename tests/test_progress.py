"""What progress says of the time left, with a clock of the test's own."""

import io

import pytest
from rich.console import Console

from common import progress
from common.progress import Display


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_time_left_is_told_from_the_rounds_done_here(clock) -> None:
    written = io.StringIO()
    with Display(1000, Console(file=written, width=200)) as display:
        display.begin("task")
        display.skip(500)
        clock[0] = 20.0
        display.advance(100)  # 0.2 s a round, 400 of them to come
    assert written.getvalue().splitlines() == ["task", "task: 600 of 1000 rounds, 20 s, 80 s left"]
