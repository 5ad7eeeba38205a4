"""Levels of curves, and which step size is a method's best."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from curve_support import curve, labelled

from plots.selection import level, mark_best

EVERY = tuple(range(101))


def best(frame: pd.DataFrame) -> dict[tuple[str, str], set[float]]:
    """The step sizes marked for each task and method."""
    marked = frame[frame["best"]]
    return {key: set(rows["lr"]) for key, rows in marked.groupby(["task", "algorithm"])}


def test_level_is_the_geometric_mean_of_the_last_tenth() -> None:
    # Rounds 91 to 100; round 90, the boundary, is out.
    frame = curve(lambda r: np.where(r > 90, 10.0 ** (r - 95), 1e50), EVERY)
    assert level(frame) == pytest.approx(10**0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("begin", "end", "expected"), [(0, 0.1, 2**5.5), (0.4, 0.5, 2**45.5), (0.99, 1, 2.0**100), (0, 1, 2**50.5)]
)
def test_level_of_other_shares(begin: float, end: float, expected: float) -> None:
    assert level(curve(lambda r: 2.0**r, EVERY), begin=begin, end=end) == pytest.approx(expected, rel=1e-12)


def test_level_of_another_metric() -> None:
    frame = curve(lambda r: 0 * r + 1.0, signal_error=np.linspace(1, 11, 11))
    assert level(frame, "signal_error") == pytest.approx(11)


def test_level_where_no_row_lies_is_nan() -> None:
    frame = curve([1.0, 2.0], (0, 100))
    assert level(frame) == pytest.approx(2)
    assert math.isnan(level(frame, begin=0.4, end=0.5))


def test_level_of_a_curve_that_reaches_zero_is_finite_and_lowest() -> None:
    zero = level(curve([1.0] * 10 + [0.0]))
    assert 0 < zero < 1e-300
    assert zero < level(curve([1.0] * 10 + [1e-200]))


def test_level_does_not_judge_an_oscillation_by_its_end() -> None:
    swings = curve(lambda r: np.where(r % 2 == 0, 1e-6, 1.0), EVERY)
    assert swings["grad_norm"].iloc[-1] == 1e-6
    assert level(swings) == pytest.approx(1e-3, rel=1e-9)


def test_best_is_the_lowest_level_not_the_lowest_value() -> None:
    steady = labelled("a", "t", curve(lambda r: 0 * r + 1e-4, EVERY), lr=0.1)
    swings = labelled("a", "t", curve(lambda r: np.where(r % 2 == 0, 1e-6, 1.0), EVERY), lr=0.2)
    assert best(mark_best(pd.concat([steady, swings]))) == {("t", "a"): {0.1}}


def test_best_of_every_task_and_method_apart() -> None:
    frame = pd.concat(
        labelled(algorithm, task, curve(lambda r, value=value: 0 * r + value), lr=lr)
        for algorithm, task, lr, value in [
            ("a", "s", 0.1, 3.0),
            ("a", "s", 0.2, 2.0),
            ("a", "t", 0.1, 1.0),
            ("a", "t", 0.2, 4.0),
            ("b", "s", 0.2, 9.0),
            ("b", "t", 0.1, 0.0),
            ("b", "t", 0.2, 1e-300),
        ]
    )
    marked = mark_best(frame)
    assert best(marked) == {("s", "a"): {0.2}, ("t", "a"): {0.1}, ("s", "b"): {0.2}, ("t", "b"): {0.1}}
    assert marked["best"].dtype == bool
    assert marked["best"].sum() == 4 * 11


def test_of_equal_levels_the_smallest_step_is_best() -> None:
    frames = [labelled("a", "t", curve(lambda r: 0 * r + 1.0), lr=lr) for lr in (0.3, 0.1, 0.2)]
    assert best(mark_best(pd.concat(frames))) == {("t", "a"): {0.1}}


def test_marking_keeps_rows_and_their_order() -> None:
    frames = [labelled(name, "t", curve(lambda r: 1.0 + r), lr=lr) for name in "ba" for lr in (0.2, 0.1)]
    frame = pd.concat(frames, ignore_index=True)
    pd.testing.assert_frame_equal(mark_best(frame).drop(columns="best"), frame)
