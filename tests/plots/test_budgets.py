"""Verdicts at equal budgets, and on what the same place costs, on hand-made curves for which they are known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from curve_support import curve

from plots.claims.budgets import ahead_at_equal, alike_early, below_at_equal_bits, fewer_bits
from plots.claims.checks import FAILS, HOLDS, NOT_DECIDABLE

EVERY_TEN = np.arange(0, 101, 10)


def with_metric(name: str, values: object, bits: int = 10, rounds: np.ndarray = EVERY_TEN) -> pd.DataFrame:
    """A curve of this metric, a number or one value a row; ten rounds are an epoch."""
    rounds = np.array(rounds)
    return curve(lambda r: 0 * r + 1.0, rounds, bits, **{name: values, "epoch": rounds / 10})


# ahead_at_equal


@pytest.mark.parametrize(
    ("metric", "better", "worse", "ends"),
    [("train_loss", 0.5, 1.0, "0.5×"), ("test_accuracy", 0.931, 0.928, "0.931 against 0.928")],
)
def test_ahead_means_lower_losses_and_higher_accuracies(metric: str, better: float, worse: float, ends: str) -> None:
    curves = {"good": with_metric(metric, better), "bad": with_metric(metric, worse)}
    options = {"share": 0.9, "metric": metric, "axis": "round"}
    finding = ahead_at_equal(curves, "good", ["bad"], **options)
    assert (finding.verdict, finding.measured) == (HOLDS, f"100 %, ends at {ends}")
    assert ahead_at_equal(curves, "bad", ["good"], **options).verdict == FAILS
    assert ahead_at_equal(curves, "good", ["good"], **options).verdict == FAILS


def test_the_axis_decides_who_is_ahead() -> None:
    # a is behind at every epoch, but spends a fifth of the bits: by 200 it has done 20 rounds and b 4.
    curves = {
        "a": with_metric("train_loss", 3 - 0.02 * EVERY_TEN, bits=10),
        "b": with_metric("train_loss", 2.9 - 0.02 * EVERY_TEN, bits=50),
    }
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", "bits").verdict == HOLDS
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", "epoch").verdict == FAILS


def test_evaluations_before_a_round_are_left_out() -> None:
    worse_then_better = [9.0] * 4 + [0.5] * 7
    curves = {"a": with_metric("train_loss", worse_then_better), "b": with_metric("train_loss", 1.0)}
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss").verdict == FAILS
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", since=31).verdict == HOLDS
    # By the bits of a's whole run, 1,000, an expensive method has only been evaluated before that round.
    curves["c"] = with_metric("train_loss", 5.0, bits=40)
    assert ahead_at_equal(curves, "a", ["c"], 0.9, "train_loss", since=31).verdict == NOT_DECIDABLE
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", since=500).verdict == NOT_DECIDABLE


def test_early_evaluations_before_a_round_are_left_out() -> None:
    curves = {"a": with_metric("train_loss", [5.0] * 2 + [1.0] * 9), "o": with_metric("train_loss", 1.0)}
    for bits, since, expected in (
        (10, 0, FAILS),
        (10, 20, HOLDS),
        (100, 20, NOT_DECIDABLE),
        (10, 500, NOT_DECIDABLE),
    ):
        curves["s"] = with_metric("train_loss", 2.0, bits=bits)
        assert alike_early(curves, "a", "o", "s", **EARLY, since=since).verdict == expected


def test_one_that_is_behind_decides_though_another_shares_no_budget() -> None:
    curves = {"a": with_metric("train_loss", 1.0), "dear": with_metric("train_loss", 2.0, bits=1000)}
    for rival, verdict in ((2.0, NOT_DECIDABLE), (0.5, FAILS)):
        curves["b"] = with_metric("train_loss", rival)
        finding = ahead_at_equal(curves, "a", ["dear", "b"], 0.9, "train_loss")
        assert finding.verdict == verdict
        assert finding.measured.startswith("no budget shared with dear; ")


def test_ahead_by_default_is_below_at_equal_bits() -> None:
    curves = {"a": curve([9.0] + [2.0] * 2 + [0.5] * 8), "b": curve([1.0] * 11)}
    finding = ahead_at_equal(curves, "a", ["b"], 0.9)
    assert finding == below_at_equal_bits(curves, "a", ["b"], 0.9)
    assert (finding.verdict, finding.measured) == (FAILS, "80 %, ends at 0.5×")


def test_ahead_without_values_or_shared_budgets_is_not_decidable() -> None:
    curves = {"a": with_metric("train_loss", 0.5), "b": with_metric("train_loss", math.nan)}
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss").verdict == NOT_DECIDABLE
    assert ahead_at_equal(curves, "b", ["a"], 0.9, "train_loss").verdict == NOT_DECIDABLE
    far = {"a": with_metric("train_loss", 0.5), "b": with_metric("train_loss", 1.0, bits=1000)}
    assert ahead_at_equal(far, "a", ["b"], 0.9, "train_loss").measured == "no budget shared with b"
    assert ahead_at_equal(far, "b", ["a"], 0.9, "train_loss").verdict == NOT_DECIDABLE


# alike_early

EARLY = {"metric": "train_loss", "axis": "bits", "until": 0.5, "within": 1.25}


def early(other: object, slower: object, metric: str = "train_loss", bits: int = 10, **options: object) -> object:
    """Of a subject that goes from 2 to 1, or the other way round, half of the way by half of its bits."""
    values = 1 + EVERY_TEN / 100 if metric.endswith("accuracy") else 2 - EVERY_TEN / 100
    curves = {
        "a": with_metric(metric, values),
        "o": with_metric(metric, other * values),
        "s": with_metric(metric, slower * values, bits=bits),
    }
    return alike_early(curves, "a", "o", "s", **{**EARLY, "metric": metric, **options})


@pytest.mark.parametrize(
    ("other", "slower", "expected"),
    [
        (1.0, 1.3, HOLDS),
        (1.24, 1.3, HOLDS),
        (0.81, 1.01, HOLDS),
        (1.26, 1.3, FAILS),
        (0.79, 1.3, FAILS),
        (1.1, 1.05, FAILS),  # slower than the subject alone
        (0.9, 0.95, FAILS),  # slower than the other alone
        (1.1, 1.1, FAILS),
    ],
)
def test_alike_early(other: float, slower: float, expected: str) -> None:
    finding = early(other, slower)
    assert finding.verdict == expected
    behind = 100 if slower > max(other, 1) else 0
    assert finding.measured == f"o at {other:.2g}×, s behind at {behind} % of 5 budgets"


def test_alike_early_of_an_accuracy_turns_the_direction() -> None:
    assert early(1.0, 0.9, "test_accuracy").verdict == HOLDS
    assert early(1.0, 1.1, "test_accuracy").verdict == FAILS


def test_alike_early_looks_at_early_budgets_alone() -> None:
    late = np.where(EVERY_TEN > 50, 100.0, 1.0)
    assert early(late, np.where(EVERY_TEN > 50, 0.001, 1.3)).verdict == HOLDS
    assert early(late, 1.3, until=0.6).verdict == FAILS
    assert early(late, 1.3, until=0.05).verdict == NOT_DECIDABLE  # no evaluation


@pytest.mark.parametrize(("share", "expected"), [(0.8, HOLDS), (0.9, FAILS)])
def test_behind_is_a_share_of_the_early_budgets(share: float, expected: str) -> None:
    assert early(1.0, np.where(EVERY_TEN == 50, 0.9, 1.3), share=share).verdict == expected


def test_a_method_on_its_way_to_its_first_evaluation_counts() -> None:
    # The slower spends 32 times the bits a round: at all early budgets it has not been evaluated but at the start.
    values = 2 - EVERY_TEN / 100
    curves = {
        "a": with_metric("train_loss", values),
        "o": with_metric("train_loss", values, bits=11),
        "s": with_metric("train_loss", values, bits=320),
    }
    finding = alike_early(curves, "a", "o", "s", **EARLY)
    assert (finding.verdict, finding.measured) == (HOLDS, "o at 1×, s behind at 100 % of 5 budgets")
    assert alike_early(curves, "a", "o", "s", **EARLY | {"axis": "round"}).verdict == FAILS  # as fast a round


def test_others_are_interpolated_between_their_evaluations() -> None:
    # One that costs a little more a round than the subject is not judged by its evaluation before.
    falling = 2.0 ** -(EVERY_TEN / 10)
    curves = {
        "a": with_metric("train_loss", falling),
        "o": with_metric("train_loss", falling, bits=11),
        "s": with_metric("train_loss", 2.0),
    }
    ratio = float(alike_early(curves, "a", "o", "s", **EARLY).measured.split()[2].rstrip("×,"))
    expected = [np.interp(r / 1.1, EVERY_TEN, falling) / 2.0 ** -(r / 10) for r in EVERY_TEN[1:6]]
    assert ratio == pytest.approx(np.exp(np.mean(np.log(expected))), rel=0.05)
    assert ratio < 1.5  # at its evaluation before it would be 2


@pytest.mark.parametrize("missing", ["o", "s"])
def test_alike_early_without_a_common_budget_is_not_decidable(missing: str) -> None:
    curves = {name: with_metric("train_loss", 1.0) for name in "aos"}
    curves[missing] = with_metric("train_loss", math.nan)
    assert alike_early(curves, "a", "o", "s", **EARLY).verdict == NOT_DECIDABLE
    curves[missing] = with_metric("train_loss", 1.0, rounds=np.array([0, 1]), bits=1)  # ends before the first budget
    assert alike_early(curves, "a", "o", "s", **EARLY).verdict == NOT_DECIDABLE


def test_a_curve_without_its_start_is_not_judged_before_its_first_evaluation() -> None:
    curves = {name: with_metric("train_loss", value) for name, value in (("a", 1.0), ("o", 1.0), ("s", 2.0))}
    curves["s"] = curves["s"][curves["s"]["round"] >= 40]
    assert alike_early(curves, "a", "o", "s", **EARLY).measured == "o at 1×, s behind at 100 % of 2 budgets"


# fewer_bits


def reaching(at: int, bits: int, metric: str = "train_loss", start: float = 2.0, end: float = 1.0) -> pd.DataFrame:
    """A metric that jumps from start to end in round `at`, of rounds 0 to 100."""
    rounds = np.arange(101)
    return with_metric(metric, np.where(rounds >= at, end, start), bits, rounds)


def cost(subject: pd.DataFrame, reference: pd.DataFrame, metrics: str = "train_loss", **options: float) -> object:
    chosen = {"times": 32.0, "within": 1.5} | options
    return fewer_bits({"a": subject, "r": reference}, "a", "r", metrics.split(), **chosen)


@pytest.mark.parametrize(
    ("per_round", "expected"),
    [(32, HOLDS), (46, HOLDS), (23, HOLDS), (60, FAILS), (16, FAILS), (1, FAILS), (48, NOT_DECIDABLE)],
)
def test_fewer_bits_is_about_a_ratio_and_its_resolution(per_round: int, expected: str) -> None:
    # 50 rounds of both: the ratio is that of the bits a round, known to 2 %; allowed are 21.3 to 48.
    finding = cost(reaching(50, 10), reaching(50, 10 * per_round))
    assert finding.verdict == expected
    low, high = per_round * 49 / 50, per_round * 50 / 49
    assert finding.measured == f"train_loss 1: {per_round:.2g}× ({low:.2g}× to {high:.2g}×)"


def test_fewer_bits_takes_the_level_that_both_reach() -> None:
    # The subject gets further, to 0.5 in round 80, but both reach 1.0: in rounds 40 and 50.
    further = with_metric("train_loss", np.select([np.arange(101) >= 80, np.arange(101) >= 40], [0.5, 1.0], 2.0), 10,
                          np.arange(101))  # fmt: skip
    assert cost(further, reaching(50, 320)).measured.startswith("train_loss 1: 40× (")
    assert cost(reaching(50, 320), further, times=1 / 40).measured.startswith("train_loss 1: 0.025× (")


def test_fewer_bits_of_accuracies_are_those_to_the_lower_maximum() -> None:
    low = reaching(50, 10, "test_accuracy", 0.1, 0.9)
    high = reaching(50, 320, "test_accuracy", 0.1, 0.95)
    finding = cost(low, high, "test_accuracy")
    assert (finding.verdict, finding.measured[:22]) == (HOLDS, "test_accuracy 0.9: 32×")
    assert cost(high, low, "test_accuracy", times=1 / 32).verdict == HOLDS


@pytest.mark.parametrize(("second", "expected"), [(50, HOLDS), (48, HOLDS), (20, FAILS)])
def test_fewer_bits_to_every_metric(second: int, expected: str) -> None:
    def both(at: int, bits: int) -> pd.DataFrame:
        return reaching(50, bits).assign(test_accuracy=np.where(np.arange(101) >= at, 0.9, 0.1))

    finding = cost(both(50, 10), both(second, 320), "train_loss test_accuracy")
    assert finding.verdict == expected
    assert ", test_accuracy 0.9: " in finding.measured


def test_a_level_reached_at_the_start_decides_nothing() -> None:
    rising = reaching(50, 10, start=1.0, end=5.0)  # its best is the start
    finding = cost(rising, reaching(50, 320, start=1.5))
    assert (finding.verdict, finding.measured) == (NOT_DECIDABLE, "train_loss 1: reached at the start")
    assert cost(reaching(50, 10, start=1.5), rising).verdict == NOT_DECIDABLE


def test_a_level_reached_at_the_first_evaluation_bounds_the_ratio() -> None:
    # All that is known of the subject is that it needs at most 10 bits, and of the reference more than 320.
    finding = cost(reaching(1, 10), reaching(2, 320))
    assert (finding.verdict, finding.measured) == (NOT_DECIDABLE, "train_loss 1: 64× (at least 32×)")
    assert cost(reaching(1, 10), reaching(3, 320)).verdict == FAILS  # at least 64 times
    finding = cost(reaching(2, 10), reaching(1, 640))
    assert (finding.verdict, finding.measured) == (NOT_DECIDABLE, "train_loss 1: 32× (at most 64×)")
    assert cost(reaching(3, 10), reaching(1, 320)).verdict == FAILS  # at most 16 times
    finding = cost(reaching(1, 10), reaching(1, 320))
    assert (finding.verdict, finding.measured) == (
        NOT_DECIDABLE,
        "train_loss 1: 32× (both at their first evaluation)",
    )


def test_a_metric_that_is_missing_decides_nothing_but_another_may_fail() -> None:
    curves = reaching(50, 10).assign(test_accuracy=math.nan), reaching(50, 320).assign(test_accuracy=0.5)
    finding = cost(*curves, "train_loss test_accuracy")
    assert finding.verdict == NOT_DECIDABLE
    assert finding.measured.endswith(", test_accuracy: not measured in both")
    assert cost(*curves, "train_loss test_accuracy", times=5.0).verdict == FAILS
