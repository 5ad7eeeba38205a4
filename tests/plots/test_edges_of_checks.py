"""Checks where a curve has a gap, a threshold is met to the digit, or evaluations are too far apart to tell."""

import math

import numpy as np
import pandas as pd
import pytest
from curve_support import check, claim, curve, flat, labelled

from plots.claims.claims import judge
from plots.claims.finding import FAILS, HOLDS, NOT_DECIDABLE, Finding
from plots.runs.best import mark_best

fewer_bits, ends_above, ends_below, stops_early, error_vanishes, times_faster, as_measured = map(
    check,
    ("fewer_bits", "ends_above", "ends_below", "stops_early", "error_vanishes", "times_faster", "as_measured"),
)

EVERY_TEN = np.arange(0, 101, 10)


def losses(values: object, bits: float = 10.0, metric: str = "train_loss") -> pd.DataFrame:
    """Eleven evaluations over 100 rounds, so many bits a round."""
    return pd.DataFrame({"round": EVERY_TEN, "bits": bits * EVERY_TEN, metric: values})


def step(
    at: int, bits: float = 10.0, high: float = 2.0, low: float = 1.0, metric: str = "train_loss"
) -> pd.DataFrame:
    return losses(np.where(at <= EVERY_TEN, low, high), bits, metric)


def asked(subject: pd.DataFrame, reference: pd.DataFrame, metric: str = "train_loss", times: float = 32.0) -> Finding:
    return fewer_bits({"a": subject, "r": reference}, "a", "r", [metric], times, within=1.5, alike=1.1)


def test_a_reference_that_leaves_the_start_fails_one_that_stays_there() -> None:
    finding = asked(losses(2.0), step(5, low=0.1))
    assert finding.verdict == FAILS
    assert finding.measured.startswith("train_loss 2: reached at the start, not alike: best 2 against 0.1")
    assert asked(losses(2.0), losses(2.0)).verdict == NOT_DECIDABLE


@pytest.mark.parametrize(("metric", "high", "low"), [("test_accuracy", 10.0, 90.0), ("train_loss", -1.0, -10.0)])
def test_what_has_no_ratio_is_not_decidable(metric: str, high: float, low: float) -> None:
    curves = [step(50, bits, high, low, metric) for bits in (10, 320)]
    assert asked(*curves, metric).verdict == NOT_DECIDABLE


def test_what_stops_early_ends_above_the_reference_by_more_than_the_factor() -> None:
    curves = {"a": flat(2.004), "just": flat(1.996), "ref": flat(1.0)}
    assert stops_early(curves, ["a"], "ref", 2.0).verdict == HOLDS
    assert stops_early(curves, ["just"], "ref", 2.0).verdict == FAILS


def test_a_missing_value_hides_no_failure_of_another() -> None:
    falling = curve(lambda r: 10.0 ** -(r / 10))
    curves = {"lost": flat(math.nan), "falls": falling, "rises": curve(lambda r: 1.0 + r), "ref": falling}
    for names in (["lost", "falls"], ["falls", "lost"]):
        assert stops_early(curves, names, "ref", 2.0).verdict == FAILS
        assert ends_above(curves, names, since=0.5, factor=2.0).verdict == FAILS
        assert ends_below(curves, [name.replace("falls", "rises") for name in names], 0.5, 2.0).verdict == FAILS
    assert ends_below(curves, ["lost", "falls"], since=0.5, factor=2.0).verdict == NOT_DECIDABLE


def test_a_single_zero_is_no_error_that_vanished() -> None:
    rounds = np.arange(101)
    frame = pd.DataFrame({"round": rounds, "grad_norm": 10.0 ** -(rounds / 20), "signal_error": 5.0})
    frame.loc[95, "signal_error"] = 0.0
    finding = error_vanishes({"a": frame}, "a", 10.0)
    assert (finding.verdict, finding.measured.partition(",")[0]) == (FAILS, "error falls 1×")
    frame.loc[91:, "signal_error"] = 0.0
    assert error_vanishes({"a": frame}, "a", 10.0).verdict == HOLDS
    frame.loc[:50, "signal_error"] = math.nan
    assert error_vanishes({"a": frame}, "a", 10.0).verdict == NOT_DECIDABLE


# seconds


def seconds(*values: float, form: str = "ring") -> pd.DataFrame:
    return pd.DataFrame({"bandwidth": [1.0, 10.0, 100.0], "seconds_to_level": values, "form": form})


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ((math.nan,) * 3, (1, 1, 1), FAILS),
        ((1, 1, 1), (9, math.nan, 9), NOT_DECIDABLE),
        ((math.nan,) * 3, (math.nan,) * 3, NOT_DECIDABLE),
    ],
)
def test_who_does_not_get_there_is_no_faster(mine: tuple, theirs: tuple, expected: str) -> None:
    curves = {"a": seconds(*mine), "r": seconds(*theirs)}
    assert times_faster(curves, "a", "r", times=2.0, low=1, high=100).verdict == expected


def test_a_range_in_which_nothing_is_modelled_is_named() -> None:
    curves = {name: seconds(1, 1, 1) for name in "ar"}
    finding = times_faster(curves, "a", "r", times=2.0, low=200, high=300)
    assert finding == Finding(NOT_DECIDABLE, "no bandwidth from 200 to 300 Mbit/s is modelled")


@pytest.mark.parametrize(
    ("modelled", "expected", "said"),
    [(0.5, FAILS, "0.5× to 1×"), (1.204, FAILS, "1× to 1.204×"), (1.196, HOLDS, "1× to 1.196×")],
)
def test_a_model_may_err_by_its_share_in_both_directions(modelled: float, expected: str, said: str) -> None:
    frame = pd.DataFrame({"modelled": [1.0, modelled], "seconds_of_round": [1.0, 1.0]})
    finding = as_measured({"a": frame}, within=0.2)
    assert finding.verdict == expected
    assert finding.measured.startswith(said)


# judge


def test_claims_are_about_what_a_task_has_and_about_whole_curves() -> None:
    level = claim("1", "level", "reaches_level", subject="a", reference="r", within=2.0)
    whole, cut = labelled("r", "s", flat(1.0)), labelled("a", "s", flat(1.0))
    [found] = judge(mark_best(pd.concat([whole, cut[cut["round"] <= 50]])), [level]).to_dict("records")[:1]
    assert (found["verdict"], found["measured"]) == (NOT_DECIDABLE, "a ends at round 50 of 100")
    [found] = judge(mark_best(whole), [level]).to_dict("records")
    assert (found["verdict"], found["measured"]) == (NOT_DECIDABLE, "no task has all of: a, r")
