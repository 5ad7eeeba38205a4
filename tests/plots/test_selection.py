"""Levels of curves, and which step size is a method's best."""

import math

import numpy as np
import pandas as pd
import pytest
from curve_support import curve, labelled

from plots.runs.best import Rule, level, mark_best, ranked

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
    assert math.isnan(level(curve([1.0, 2.0], (0, 100)), begin=0.4, end=0.5))  # where no row lies


def test_level_of_a_curve_that_reaches_zero_is_finite_and_lowest() -> None:
    zero = level(curve([1.0] * 10 + [0.0]))
    assert 0 < zero < 1e-300
    assert zero < level(curve([1.0] * 10 + [1e-200]))


def test_best_is_the_lowest_level_not_the_lowest_value() -> None:
    steady = labelled("a", "t", curve(lambda r: 0 * r + 1e-4, EVERY), lr=0.1)
    swings = labelled("a", "t", curve(lambda r: np.where(r % 2 == 0, 1e-6, 1.0), EVERY), lr=0.2)
    assert best(mark_best(pd.concat([steady, swings]))) == {("t", "a"): {0.1}}


def by_seed(values: dict[float, dict[int, float]], metric: str = "grad_norm", **columns: object) -> pd.DataFrame:
    """One method on one task, constant at a value for each step size and seed."""
    return pd.concat(
        labelled("a", "t", curve(lambda r: 0 * r + 1.0, **columns), lr=lr, seed=seed).assign(**{metric: value})
        for lr, seeds in values.items()
        for seed, value in seeds.items()
    )


@pytest.mark.parametrize(
    ("metric", "values", "lr"),
    [
        # The geometric mean; arithmetically 0.2 would win, and in seed 0 alone 0.3.
        ("grad_norm", {0.1: {0: 1e-4, 1: 4.0}, 0.2: {0: 1.0, 1: 1.0}, 0.3: {0: 1e-5, 1: 100.0}}, 0.1),
        ("train_loss", {0.1: {0: 0.5}, 0.2: {0: 0.4}, 0.3: {0: 0.6}}, 0.2),
        ("train_loss", {0.1: {0: -1.0}, 0.2: {0: 0.5}, 0.3: {0: -3.0}}, 0.3),
        # The highest arithmetic mean; the geometric mean of 0.2 would be 0.5, and the lowest is 0.3.
        ("test_accuracy", {0.1: {0: 0.55, 1: 0.55}, 0.2: {0: 0.25, 1: 1.0}, 0.3: {0: 0.1, 1: 0.1}}, 0.2),
    ],
)
def test_what_a_metric_selects_over_seeds(metric: str, values: dict, lr: float) -> None:
    marked = mark_best(by_seed(values, metric), metric)
    assert best(marked) == {("t", "a"): {lr}}
    assert marked["best"].sum() == len(values[lr]) * 11  # all seeds of it


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_trial_that_diverged_comes_last(bad: float) -> None:
    frame = by_seed({0.1: {0: bad}, 0.2: {0: 1e9}})
    assert best(mark_best(frame)) == {("t", "a"): {0.2}}
    assert ranked(frame, Rule("grad_norm"))["why_not"].tolist() == ["", "not finished"]
    assert best(mark_best(by_seed({0.1: {0: 1e-9, 1: bad}, 0.2: {0: 1e9, 1: 1e9}}))) == {("t", "a"): {0.2}}
    assert best(mark_best(by_seed({0.2: {0: bad}, 0.1: {0: bad}}), "grad_norm")) == {("t", "a"): {0.1}}


def test_what_cannot_be_selected_by_is_refused() -> None:
    with pytest.raises(ValueError, match="trian_loss: no run has this metric"):
        mark_best(by_seed({0.1: {0: 1.0}}), "trian_loss")
