"""Checks where a curve has a gap, a threshold is met to the digit, or evaluations are too far apart to tell."""

import math

import numpy as np
import pandas as pd
import pytest
from curve_support import check, claim, curve, flat, labelled

from plots.claims.check import FAILS, HOLDS, NOT_DECIDABLE
from plots.claims.claims import judge
from plots.runs.best import mark_best

ends_above, ends_below, stops_early, error_vanishes, times_faster, as_measured = map(
    check,
    ("ends_above", "ends_below", "stops_early", "error_vanishes", "times_faster", "as_measured"),
)


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
