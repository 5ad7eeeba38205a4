"""After which rounds rows are written."""

from dataclasses import replace

import pytest
from run_support import SMALL, configuration, go, rows, small


@pytest.mark.parametrize(
    ("rounds", "every", "early", "expected"),
    [
        (20, 5, False, [5, 10, 15, 20]),
        (23, 10, True, [1, 2, 4, 8, 10, 20, 23]),
        (20, 8, True, [1, 2, 4, 8, 16, 20]),
        (3, 100, True, [1, 2, 3]),
        (3, 100, False, [3]),
    ],
)
def test_rounds_that_are_due(rounds: int, every: int, early: bool, expected: list[int]) -> None:
    run = replace(small(), rounds=rounds, eval_every=every, eval_early=early)
    assert [t for t in range(1, rounds + 1) if run.is_due(t)] == expected
    assert run.evaluations == 1 + len(expected)


def test_a_run_writes_them(results: str) -> None:
    command = (*SMALL, results, "eval_every=10", "eval_early=true")
    path = go(*command)
    assert [row["round"] for row in rows(path)] == [0, 1, 2, 4, 8, 10, 20]
    assert len(rows(path)) == configuration(*command).evaluations
