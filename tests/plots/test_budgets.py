"""Verdicts at equal budgets, and on what the same place costs, on hand-made curves for which they are known."""

import math

import numpy as np
import pandas as pd
import pytest
from curve_support import check, claim, curve

from plots.claims.check import FAILS, HOLDS, NOT_DECIDABLE
from plots.claims.claims import judge_seed

ahead_at_equal, alike_early, fewer_bits, fewer_bits_to = map(
    check, ("ahead_at_equal", "alike_early", "fewer_bits", "fewer_bits_to")
)

EVERY_TEN = np.arange(0, 101, 10)


def with_metric(name: str, values: object, bits: int = 10, rounds: np.ndarray = EVERY_TEN) -> pd.DataFrame:
    """A curve of this metric, a number or one value a row; ten rounds are an epoch."""
    rounds = np.array(rounds)
    return curve(lambda r: 0 * r + 1.0, rounds, bits, **{name: values, "epoch": rounds / 10})


def losses(**values: object) -> dict[str, pd.DataFrame]:
    """Curves of a loss: its values, or these and the bits of a round."""
    several = {name: some if isinstance(some, tuple) else (some,) for name, some in values.items()}
    return {name: with_metric("train_loss", *some) for name, some in several.items()}


@pytest.mark.parametrize(
    ("metric", "better", "worse", "ends"),
    [("train_loss", 0.5, 1.0, "0.5×"), ("test_accuracy", 0.931, 0.928, "0.931 against 0.928")],
)
def test_ahead_means_lower_losses_and_higher_accuracies(metric: str, better: float, worse: float, ends: str) -> None:
    curves = {"good": with_metric(metric, better), "bad": with_metric(metric, worse)}
    options = {"share": 0.9, "metric": metric, "axis": "round"}
    finding = ahead_at_equal(curves, "good", ["bad"], **options)
    assert (finding.verdict, finding.measured) == (HOLDS, f"100 % of 10, ends at {ends}")
    assert ahead_at_equal(curves, "bad", ["good"], **options).verdict == FAILS
    assert ahead_at_equal(curves, "good", ["good"], **options).verdict == FAILS


def test_the_axis_decides_who_is_ahead() -> None:
    # a is behind at every epoch, but spends a fifth of the bits: by 200 it has done 20 rounds and b 4.
    curves = losses(a=3 - 0.02 * EVERY_TEN, b=(2.9 - 0.02 * EVERY_TEN, 50))
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", "bits").verdict == HOLDS
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", "epoch").verdict == FAILS


def test_evaluations_before_a_round_are_left_out() -> None:
    curves = losses(a=[9.0] * 4 + [0.5] * 7, b=1.0, c=(5.0, 40))
    assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss").verdict == FAILS
    for since in (31, 90):  # an evaluation in that round counts, and two are the fewest
        assert ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", since=since).verdict == HOLDS
    # By the bits of a's whole run, 1,000, an expensive method has only been evaluated before that round.
    assert ahead_at_equal(curves, "a", ["c"], 0.9, "train_loss", since=31).verdict == NOT_DECIDABLE
    for since, text in ((100, "one budget shared with b"), (500, "no budget shared with b")):
        finding = ahead_at_equal(curves, "a", ["b"], 0.9, "train_loss", since=since)
        assert (finding.verdict, finding.measured) == (NOT_DECIDABLE, text)


@pytest.mark.parametrize(
    ("mine", "theirs", "expected", "text"),
    [
        # the subject is ahead until round 20, and then has no value any more: lost at eight of ten budgets
        (np.where(EVERY_TEN > 20, math.nan, 0.5), 1.0, FAILS, "20 % of 10, ends at –"),
        (np.where(EVERY_TEN == 50, math.nan, 0.5), 1.0, HOLDS, "90 % of 10, ends at 0.5×"),
        # the other has none after round 20, when the subject is nine times worse
        (np.where(EVERY_TEN > 20, 9.0, 0.5), np.where(EVERY_TEN > 20, math.nan, 1.0), NOT_DECIDABLE,
         "b has no value at 8 of 10 budgets"),
        (0.5, np.where(EVERY_TEN == 100, math.nan, 1.0), NOT_DECIDABLE, "b has no value at 1 of 10 budgets"),
    ],
)  # fmt: skip
def test_a_value_that_is_missing_is_lost_by_the_subject_and_decides_nothing_of_another(
    mine: object, theirs: object, expected: str, text: str
) -> None:
    finding = ahead_at_equal(losses(a=mine, b=theirs), "a", ["b"], 0.9, "train_loss")
    assert (finding.verdict, finding.measured) == (expected, text)


def cut(frame: pd.DataFrame, last: int, **columns: object) -> pd.DataFrame:
    """A curve that ends at a round."""
    return frame[frame["round"] <= last].assign(**columns)


@pytest.mark.parametrize("short", ["a", "o", "s"])
def test_a_curve_that_ends_before_its_last_round_decides_nothing(short: str) -> None:
    curves = losses(a=1.0, o=1.0, s=2.0) | {"r": with_metric("train_loss", np.where(EVERY_TEN, 1.0, 3.0), bits=320)}
    curves["a"].loc[0, "train_loss"] = 3.0  # so that both come to a level
    fewer = {"metrics": ["train_loss"], "times": 32.0, "within": 1.5, "alike": 1.1}
    ahead = {"subject": "o" if short == "o" else "a", "others": ["s"], "share": 0.1, "metric": "train_loss"}
    claims = [
        claim("1", "", "ahead_at_equal", **ahead),
        claim("2", "", "alike_early", subject="a", other="o", slower="s", **EARLY),
        claim("3", "", "fewer_bits", subject=short, reference="r", **fewer),
    ]
    whole = curves[short]
    for columns in ({}, {"planned_rounds": 100}):
        curves[short] = cut(whole, 20, **columns)
        for one in claims:
            finding = judge_seed(curves, one)
            assert (finding.verdict, finding.measured) == (NOT_DECIDABLE, f"{short} ends at round 20 of 100")
    curves[short] = cut(whole, 50, planned_rounds=50)  # that was all it was to have
    assert not [one for one in claims if "ends at round" in judge_seed(curves, one).measured]


@pytest.mark.parametrize(("higher", "expected"), [(0, HOLDS), (1, HOLDS), (2, FAILS), (10, FAILS)])
def test_ahead_of_every_other_at_a_share_of_budgets(higher: int, expected: str) -> None:
    curves = losses(a=[9.0] + [2.0] * higher + [0.5] * (10 - higher), b=1.0, c=9.0)
    finding = ahead_at_equal(curves, "a", ["c", "b"], 0.9, "train_loss")
    assert (finding.verdict, finding.measured.count("100 % of 10")) == (expected, 1 if higher else 2)
    assert f"; {100 - 10 * higher} % of 10" in finding.measured


EARLY = {"metric": "train_loss", "axis": "bits", "until": 0.5, "within": 1.25}
LATE = EVERY_TEN > 50


def early(curves: dict[str, pd.DataFrame], **options: object) -> tuple[str, str]:
    finding = alike_early(curves, "a", "o", "s", **EARLY | options)
    return finding.verdict, finding.measured


@pytest.mark.parametrize(
    ("other", "slower", "options", "expected"),
    [
        (1.24, 1.3, {}, HOLDS),
        (0.81, 1.01, {}, HOLDS),
        (1.26, 1.3, {}, FAILS),
        (0.79, 1.3, {}, FAILS),
        (1.1, 1.05, {}, FAILS),  # slower than the subject alone
        (0.9, 0.95, {}, FAILS),  # slower than the other alone
        (1.1, 1.1, {}, FAILS),
        (1.0, 0.9, {"metric": "test_accuracy"}, HOLDS),
        (np.where(LATE, 100.0, 1.0), np.where(LATE, 0.001, 1.3), {}, HOLDS),  # early budgets alone count
        (np.where(LATE, 100.0, 1.0), 1.3, {"until": 0.6}, FAILS),
        (1.0, 1.3, {"until": 0.05}, NOT_DECIDABLE),  # no evaluation
        (1.0, np.where(EVERY_TEN == 50, 0.9, 1.3), {"share": 0.8}, HOLDS),  # behind at four of five
        (1.0, np.where(EVERY_TEN == 50, 0.9, 1.3), {"share": 0.9}, FAILS),
    ],
)
def test_alike_early(other: object, slower: object, options: dict, expected: str) -> None:
    metric = options.get("metric", "train_loss")  # goes from 2 to 1, or the other way round, half by half of the bits
    values = 2 - EVERY_TEN / 100 if metric == "train_loss" else 1 + EVERY_TEN / 100
    curves = {name: with_metric(metric, some * values) for name, some in (("a", 1), ("o", other), ("s", slower))}
    verdict, measured = early(curves, **options)
    assert verdict == expected
    if not options and np.isscalar(other):
        behind = 100 if slower > max(other, 1) else 0
        ratio = f"{other:#.3g}" if other in (1.24, 1.26, 0.81, 0.79) else f"{other:.2g}"  # near 1.25 or 0.8
        assert measured == f"o at {ratio}×, s behind at {behind} % of 5 budgets, rounds 10 to 50"


def test_others_are_interpolated_between_their_evaluations() -> None:
    # One that costs a little more a round than the subject is not judged by its evaluation before.
    falling = 2.0 ** -(EVERY_TEN / 10)
    ratio = float(early(losses(a=falling, o=(falling, 11), s=2.0))[1].split()[2].rstrip("×,"))
    expected = [np.interp(r / 1.1, EVERY_TEN, falling) / 2.0 ** -(r / 10) for r in EVERY_TEN[1:6]]
    assert ratio == pytest.approx(np.exp(np.mean(np.log(expected))), rel=0.05)
    assert ratio < 1.5  # at its evaluation before it would be 2


@pytest.mark.parametrize(
    ("blank", "expected", "text"),
    [
        ("a", FAILS, "a has no value at 4 of 5 budgets"),
        ("o", NOT_DECIDABLE, "o has no value at 4 of 5 budgets"),
        ("s", NOT_DECIDABLE, "s has no value at 4 of 5 budgets"),
    ],
)
def test_one_early_budget_of_five_decides_nothing(blank: str, expected: str, text: str) -> None:
    curves = losses(a=1.0, o=1.0, s=2.0)
    curves[blank].loc[curves[blank]["round"] > 10, "train_loss"] = math.nan
    assert early(curves) == (expected, text)
    assert early(losses(a=1.0, o=1.0, s=2.0), until=0.1) == (NOT_DECIDABLE, "one early budget shared")


@pytest.mark.parametrize(
    ("bits", "since", "expected"),
    [(10, 0, FAILS), (10, 20, HOLDS), (100, 20, NOT_DECIDABLE), (10, 500, NOT_DECIDABLE)],
)
def test_early_evaluations_before_a_round_are_left_out(bits: int, since: int, expected: str) -> None:
    assert early(losses(a=[5.0] * 2 + [1.0] * 9, o=1.0, s=(2.0, bits)), since=since)[0] == expected


def reaching(at: int, bits: int, metric: str = "train_loss", start: float = 2.0, end: float = 1.0) -> pd.DataFrame:
    """A metric that jumps from start to end in round `at`, of rounds 0 to 100."""
    rounds = np.arange(101)
    return with_metric(metric, np.where(rounds >= at, end, start), bits, rounds)


def rising_again(bits: int, end: float) -> pd.DataFrame:
    """A loss that falls from 2 to 1 in round 50 and has another value from round 80 on."""
    frame = reaching(50, bits)
    return frame.assign(train_loss=frame["train_loss"].mask(frame["round"] >= 80, end))


def falling(*steps: tuple[int, float]) -> pd.DataFrame:
    """A loss that is at 2 until it falls to each of these values in its round, at 10 bits a round."""
    rounds = np.arange(101)
    losses = np.select([rounds >= at for at, _ in steps], [to for _, to in steps], 2.0)
    return with_metric("train_loss", losses, 10, rounds)


def both(at: int, bits: int, accuracy: float = 0.9) -> pd.DataFrame:
    """A loss that falls in round 50, and an accuracy that rises in round `at`."""
    return reaching(50, bits).assign(test_accuracy=np.where(np.arange(101) >= at, accuracy, 0.1))


LOW, HIGH = reaching(50, 10, "test_accuracy", 0.1, 0.9), reaching(50, 320, "test_accuracy", 0.1, 0.95)
FURTHER = falling((80, 0.5), (40, 1.0))
AHEAD, HALF_AHEAD = (FURTHER.assign(bits=bits * np.arange(101)) for bits in (320, 160))
RISING = reaching(50, 10, start=1.0, end=5.0)  # its best is the start
STILL = reaching(101, 10)
PERCENT, NEGATIVE = reaching(50, 10, "test_accuracy", 10, 90), reaching(50, 10, start=-1, end=-10)
BLIND = reaching(50, 10).assign(test_accuracy=math.nan)


@pytest.mark.parametrize(
    ("subject", "reference", "metrics", "times", "expected", "text"),
    [
        # 50 rounds of both: the ratio is that of the bits a round, known to 2 %; at least 21.3 is asked for.
        *(
            (reaching(50, 10), reaching(50, 10 * ratio), "train_loss", 32, verdict,
             f"train_loss 1: {ratio:.2g}× the bits ({ratio * 49 / 50:.2g}× to {ratio * 50 / 49:.2g}×), 1× the rounds")
            for ratio, verdict in ((32, HOLDS), (60, HOLDS), (16, FAILS))
        ),
        (reaching(50, 10), reaching(50, 230), "train_loss", 32, HOLDS, "23.0× the bits (22.5× to 23×), "),
        (reaching(50, 10), reaching(50, 215), "train_loss", 32, NOT_DECIDABLE, "21.5× the bits (21.1× to 21.9×), "),
        # Messages 32 times shorter, but four times the rounds.
        (reaching(80, 10), reaching(20, 320), "train_loss", 32, FAILS, "8× the bits (7.6× to 8.1×), 0.25× the ro"),
        # One gets further, to 0.5 in round 80, and both reach 1.0, in rounds 40 and 50: nothing is held against a
        # subject that goes on, while one that stays behind has only shorter messages.
        (FURTHER, reaching(50, 320), "train_loss", 32, HOLDS, "40× the bits (39× to 41×), 1.2× the rounds"),
        (reaching(50, 10), AHEAD, "train_loss", 21, NOT_DECIDABLE, "26× the bits (25× to 26×), 0.8× the rounds, n"),
        # To a level that it never reaches it needs more than all that it spends: the reference is there after 80 of
        # 100 rounds, each of 32 or 16 times the bits.
        (reaching(5, 10), HALF_AHEAD, "train_loss", 24, FAILS, "further on at most 13×"),
        (reaching(5, 10), AHEAD, "train_loss", 48, FAILS, "ends 1 against 0.5, further on at most 26×"),
        (reaching(5, 10), AHEAD, "train_loss", 38, NOT_DECIDABLE, "ends 1 against 0.5"),
        (reaching(50, 10, end=1.09), reaching(40, 320), "train_loss", 21, HOLDS, "train_loss 1.09: 26×"),
        (reaching(50, 10, end=1.11), reaching(40, 320), "train_loss", 18, NOT_DECIDABLE, "best 1.11 against 1"),
        # Who gets there and does not stay there has not got as far; the reference may rise again, but not be lost.
        *(
            (mine, theirs, "train_loss", 32, verdict, text)
            for mine, theirs, verdict, text in (
                (rising_again(10, 100.0), reaching(50, 320), NOT_DECIDABLE, "not alike: best 1 against 1, ends 100 "),
                (rising_again(10, math.nan), reaching(50, 320), NOT_DECIDABLE, "against 1, ends – against 1"),
                (rising_again(10, 1.09), reaching(50, 320), HOLDS, "1× the rounds"),
                (reaching(50, 10), rising_again(320, 100.0), HOLDS, "1× the rounds"),
                (reaching(50, 10), rising_again(320, math.nan), NOT_DECIDABLE, "ends 1 against –"),
                (rising_again(10, 100.0), reaching(50, 10), FAILS, "ends 100 against 1"),
            )
        ),
        # Of accuracies it is the lower maximum, and what is compared are error rates: 0.1 and 0.05.
        (LOW, HIGH, "test_accuracy", 23, NOT_DECIDABLE,
         "test_accuracy 0.9: 32× the bits (31× to 33×), 1× the rounds, not alike: best 0.9 against 0.95, ends 0."),
        (LOW, HIGH, "test_accuracy", 32, FAILS, "ends 0.9 against 0.95, further on at most 16×"),
        (reaching(50, 10, "test_accuracy", 0.1, 0.946), HIGH, "test_accuracy", 32, HOLDS, "test_accuracy 0.946: 32×"),
        # Of several metrics all must do.
        *((both(50, 10), both(at, 320), "train_loss test_accuracy", 32, verdict, "; test_accuracy 0.9: ")
          for at, verdict in ((50, HOLDS), (48, HOLDS), (20, FAILS))),
        # A level that one has at the start decides nothing.
        (RISING, reaching(50, 320, start=1.5), "train_loss", 32, NOT_DECIDABLE, "train_loss 1: reached at the start"),
        (reaching(50, 10, start=1.5), RISING, "train_loss", 32, NOT_DECIDABLE, "train_loss 1: reached at the start"),
        # One reached at the first evaluation bounds the ratio: the subject needs at most 10 bits.
        (reaching(1, 10), reaching(2, 320), "train_loss", 32, HOLDS, "64× the bits (at least 32×), 2× the rounds"),
        (reaching(1, 10), reaching(2, 320), "train_loss", 64, NOT_DECIDABLE, "64× the bits (at least 32×)"),
        (reaching(2, 10), reaching(1, 640), "train_loss", 32, NOT_DECIDABLE, "32× the bits (at most 64×)"),
        (reaching(1, 10), reaching(1, 320), "train_loss", 32, NOT_DECIDABLE, "32× the bits (both at their first"),
        # A reference that leaves the start fails one that stays there.
        (STILL, reaching(5, 10, end=0.1), "train_loss", 32, FAILS,
         "train_loss 2: reached at the start, not alike: best 2 against 0.1"),
        (STILL, STILL, "train_loss", 32, NOT_DECIDABLE, "reached at the start"),
        # Percent and negative losses have no ratios.
        (PERCENT, PERCENT, "test_accuracy", 1, NOT_DECIDABLE, "no share"),
        (NEGATIVE, NEGATIVE, "train_loss", 1, NOT_DECIDABLE, "no loss with a ratio"),
        # A metric that is missing decides nothing, but another may fail.
        (BLIND, both(0, 320), "train_loss test_accuracy", 32, NOT_DECIDABLE, "; test_accuracy: not measured in both"),
        (BLIND, both(0, 320), "train_loss test_accuracy", 50, FAILS, "; test_accuracy: not measured in both"),
    ],
)  # fmt: skip
def test_fewer_bits(
    subject: pd.DataFrame, reference: pd.DataFrame, metrics: str, times: float, expected: str, text: str
) -> None:
    finding = fewer_bits({"a": subject, "r": reference}, "a", "r", metrics.split(), times, within=1.5, alike=1.1)
    assert finding.verdict == expected
    assert text in finding.measured


@pytest.mark.parametrize(
    ("mine", "theirs", "times", "expected", "measured"),
    [
        # evaluations at 0, 100, … 1,000 bits; a loss of 1 or less is the level
        ([9, 9, 1], [9, 9, 9, 1], 1.0, HOLDS, "200 against 300"),
        ([9, 9, 9, 1], [9, 9, 1], 1.0, FAILS, "300 against 200"),
        ([9, 9, 1], [9, 9, 1], 1.0, NOT_DECIDABLE, "200 against 200, nearer than evaluations are"),
        ([9, 9, 9, 1], [9, 9, 1], 0.5, NOT_DECIDABLE, "300 against 200, nearer than evaluations are"),
        ([9], [9, 9, 1], 0.2, FAILS, "more than 1e3 against 200"),
        ([9, 9, 1], [9, 9, 9, 1], 1.5, NOT_DECIDABLE, "200 against 300, nearer than evaluations are"),
        ([9, 9, 1], [9, 9, 9, 1], 3.0, FAILS, "200 against 300"),
        ([9, 9, 1, 9], [9, 9, 9, 1], 1.0, HOLDS, "200 against 300"),  # that it rises again does not matter
        ([9, 9, 1], [9], 5.0, HOLDS, "200 against more than 1e3"),
        ([9, 9, 1], [9], 6.0, NOT_DECIDABLE, "200 against more than 1e3"),
        ([9], [9, 9, 1], 0.1, NOT_DECIDABLE, "more than 1e3 against 200"),
        ([9], [9], 1.0, NOT_DECIDABLE, "more than 1e3 against more than 1e3"),
        ([math.nan], [9, 9, 1], 1.0, NOT_DECIDABLE, "a has no value"),
        ([9, 9, 1], [math.nan], 1.0, NOT_DECIDABLE, "b has no value"),
        ([9, math.nan], [9, 9, 1], 1.0, FAILS, "more than 1e3 against 200"),
        ([1], [1], 1.0, NOT_DECIDABLE, "0 against 0"),
        ([1], [9, 1], 1.0, HOLDS, "0 against 100"),
    ],
)
def test_bits_to_a_level(mine: list[float], theirs: list[float], times: float, expected: str, measured: str) -> None:
    # of each the values as far as they are given, and then the last
    curves = losses(**{name: (np.array(some + some[-1:] * 11)[:11],) for name, some in (("a", mine), ("b", theirs))})
    finding = fewer_bits_to(curves, "a", "b", "train_loss", 1.0, times=times)
    assert (finding.verdict, finding.measured) == (expected, measured)


def test_bits_to_a_level_are_exact_where_every_round_was_evaluated() -> None:
    rows = pd.DataFrame({"round": range(3), "bits": [0.0, 10.0, 20.0], "train_loss": [9.0, 9.0, 1.0]})
    every = {"a": rows, "b": rows}
    finding = fewer_bits_to(every, "a", "b", "train_loss", 1.0)
    assert (finding.verdict, finding.measured) == (FAILS, "20 against 20")
    later = every | {"b": every["b"].assign(bits=[0.0, 10.0, 20.001])}
    finding = fewer_bits_to(later, "a", "b", "train_loss", 1.0)
    assert (finding.verdict, finding.measured) == (HOLDS, "20 against 20.001")
