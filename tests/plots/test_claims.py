"""Verdicts on hand-made curves for which they are known."""

import numpy as np
import pandas as pd
import pytest
from curve_support import check as check_named
from curve_support import claim, curve, flat, label_curve

from plots.claims.check import FAILS, HOLDS, NOT_DECIDABLE
from plots.claims.claims import judge
from plots.runs.best import mark_best


def found(check: str, curves: dict[str, pd.DataFrame], **options: object) -> tuple[str, str]:
    finding = check_named(check)(curves, **options)
    return finding.verdict, finding.measured


def verdict(check: str, curves: dict[str, pd.DataFrame], **options: object) -> str:
    return found(check, curves, **options)[0]


@pytest.mark.parametrize(
    ("check", "metric", "mine", "theirs", "expected", "text"),
    [
        ("reaches_level", "grad_norm", 1e-9, 1.0, HOLDS, "1e-09×"),
        ("reaches_level", "grad_norm", 2.0, 1.0, HOLDS, "2.00×"),
        ("reaches_level", "grad_norm", 2.0001, 1.0, FAILS, "2.0001×"),
        ("reaches_level", "grad_norm", 0.0, 0.0, HOLDS, "1×"),
        ("clearly_ahead", "train_loss", 0.1, 0.21, HOLDS, "2.10×"),
        ("clearly_ahead", "train_loss", 0.1, 0.19, FAILS, "1.90×"),
        ("clearly_ahead", "test_accuracy", 0.95, 0.45, HOLDS, "2.11×"),
        ("clearly_ahead", "train_loss", -10.0, -1.0, NOT_DECIDABLE, "–"),
        ("clearly_ahead", "test_accuracy", 0.45, 0.9, FAILS, "0.5×"),
        ("clearly_ahead", "train_loss", 0.1, np.nan, NOT_DECIDABLE, "–"),
        ("ends_alike", "train_loss", 0.21, 0.1, FAILS, "2.10×"),
        ("ends_alike", "train_loss", 0.19, 0.1, HOLDS, "1.90×"),
        ("ends_alike", "train_loss", 0.1, 0.21, FAILS, "0.476×"),
        ("second_moment_grows", "second_moment", 4.1, 2.0, HOLDS, "2.05×"),
        ("second_moment_grows", "second_moment", 4.0, 2.0, FAILS, "2.00×"),
        ("second_moment_grows", "second_moment", 4.1, np.nan, NOT_DECIDABLE, "–"),
    ],
)
def test_two_curves_are_compared_at_their_ends(
    check: str, metric: str, mine: float, theirs: float, expected: str, text: str
) -> None:
    # Rounds 0 to 90 say the opposite.
    ends = {"a": [theirs] * 10 + [mine], "b": [mine] * 10 + [theirs]}
    curves = {name: flat(1.0).assign(**{metric: values}) for name, values in ends.items()}
    options = {
        "reaches_level": {"reference": "b", "within": 2.0},
        "clearly_ahead": {"other": "b", "metric": metric, "factor": 2.0},
        "ends_alike": {"other": "b", "metric": metric, "factor": 2.0},
        "second_moment_grows": {"reference": "b", "factor": 2.0},
    }
    assert found(check, curves, subject="a", **options[check]) == (expected, text)


@pytest.mark.parametrize(
    ("half", "end", "expected"),
    [
        (10.0, 10.0, HOLDS),
        (10.0, 5.1, HOLDS),
        (10.0, 5.0, FAILS),  # falls by the factor
        (3.0, 2.1, HOLDS),
        (3.0, 2.0, FAILS),  # ends at the factor above the reference
    ],
)
def test_stops_early(half: float, end: float, expected: str) -> None:
    # (0.4, 0.5] of the rounds is round 50 and the last tenth round 100.
    frame = flat(77.0)
    frame.loc[frame["round"] == 50, "grad_norm"] = half
    frame.loc[frame["round"] == 100, "grad_norm"] = end
    curves = {"a": frame, "ref": flat(1.0)}
    assert verdict("stops_early", curves, subjects=["a"], reference="ref", factor=2.0) == expected
    curves["a"] = frame[frame["round"] != 50]
    assert verdict("stops_early", curves, subjects=["a"], reference="ref", factor=2.0) == NOT_DECIDABLE


@pytest.mark.parametrize(
    ("end", "above", "below"),
    [
        (2.0, FAILS, FAILS),
        (2.1, HOLDS, FAILS),
        (0.5, FAILS, FAILS),
        (0.49, FAILS, HOLDS),
        (np.nan, NOT_DECIDABLE, NOT_DECIDABLE),
    ],
)
def test_an_end_is_held_against_what_was_reached_before(end: float, above: str, below: str) -> None:
    # At 0.5 of the rounds it had 1; round 40 and those between say the opposite.
    frame = flat(1 / end).assign(grad_norm=[1 / end] * 5 + [1.0] + [1 / end] * 4 + [end])
    for bound, expected in (({"above": 2.0}, above), ({"below": 0.5}, below)):
        [near] = bound.values()  # three digits near the threshold
        digits = "#.3g" if abs(end / near - 1) < 0.1 else "g"
        text = "a ends at –" if np.isnan(end) else f"a ends at {end:{digits}}×"
        assert found("changes_since", {"a": frame}, subjects=["a"], since=0.5, **bound) == (expected, text)


def test_every_subject_must_end_there_and_a_missing_value_hides_no_failure_of_another() -> None:
    falling = curve(lambda r: np.where(r > 90, 0.1, 1.0))
    curves = {"up": curve(lambda r: np.where(r > 90, 9.0, 1.0)), "down": falling, "lost": flat(np.nan)}
    for bound, one, other in (({"above": 2.0}, "up", "down"), ({"below": 0.5}, "down", "up")):
        for subjects, expected in (
            ([one, one], HOLDS),
            ([one, other], FAILS),
            (["lost", other], FAILS),
            ([one, "lost"], NOT_DECIDABLE),
        ):
            assert verdict("changes_since", curves, subjects=subjects, since=0.5, **bound) == expected


@pytest.mark.parametrize("bounds", [{}, {"above": 0.5, "below": 2.0}])
def test_a_change_has_one_bound(bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give either above or below"):
        claim("1", "", "changes_since", subjects=["a"], since=0.5, **bounds)


def signs(d: int, up: int, down: int, size: int) -> pd.DataFrame:
    rounds = np.arange(0, 50, 10)
    return flat(1.0, rounds=rounds, bits_up=up * rounds, bits_down=down * rounds, payload_bytes=size * rounds, d=d)


@pytest.mark.parametrize(
    ("d", "up", "down", "size", "expected"),
    [
        (30, 62, 62, 24, HOLDS),
        (33, 65, 65, 26, HOLDS),
        (30, 62, 61, 24, FAILS),
        (30, 63, 62, 24, FAILS),
        (30, 62, 62, 22, FAILS),
    ],
)
def test_one_bit_a_coordinate(d: int, up: int, down: int, size: int, expected: str) -> None:
    curves = {"good": signs(30, 62, 62, 24), "a": signs(d, up, down, size)}
    for subjects in (["a"], ["good", "a"], ["a", "good"]):
        assert verdict("one_bit_a_coordinate", curves, subjects=subjects) == expected


def test_one_bit_a_coordinate_looks_at_every_round() -> None:
    frame = signs(30, 62, 62, 24)
    assert found("one_bit_a_coordinate", {"a": frame}, subjects=["a"])[1] == "d = 30: 62 bits, 12 bytes"
    curves = {"bad": signs(30, 960, 960, 480), "good": frame}
    assert "960" in found("one_bit_a_coordinate", curves, subjects=["bad", "good"])[1]
    frame.loc[2, "bits_up"] += 1  # such as a dense start
    assert verdict("one_bit_a_coordinate", {"a": frame}, subjects=["a"]) == FAILS


@pytest.mark.parametrize(
    ("error_end", "gradient_end", "expected"),
    [(0.09, 0.09, HOLDS), (0.09, 1e-9, HOLDS), (0.11, 0.09, FAILS), (5.0, 0.09, FAILS), (0.09, 0.11, NOT_DECIDABLE)],
)
def test_error_vanishes(error_end: float, gradient_end: float, expected: str) -> None:
    # The first tenth is round 10 (round 0 has no error), the last round 100.
    frame = curve([7.0, 1.0] + [33.0] * 8 + [gradient_end], signal_error=[np.nan, 1.0] + [9.0] * 8 + [error_end])
    assert verdict("error_vanishes", {"a": frame}, subject="a", factor=10.0) == expected
    settled = frame.assign(signal_error=[np.nan, 1.0] + [0.0] * 9)
    if expected != NOT_DECIDABLE:
        assert verdict("error_vanishes", {"a": settled}, subject="a", factor=10.0) == HOLDS
    never = frame.assign(signal_error=0.0)
    assert verdict("error_vanishes", {"a": never}, subject="a", factor=10.0) == NOT_DECIDABLE
    without_early = frame[frame["round"] != 10]
    assert verdict("error_vanishes", {"a": without_early}, subject="a", factor=10.0) == NOT_DECIDABLE


def test_a_single_zero_is_no_error_that_vanished() -> None:
    rounds = np.arange(101)
    frame = pd.DataFrame({"round": rounds, "grad_norm": 10.0 ** -(rounds / 20), "signal_error": 5.0})
    frame.loc[95, "signal_error"] = 0.0
    result, text = found("error_vanishes", {"a": frame}, subject="a", factor=10.0)
    assert (result, text.partition(",")[0]) == (FAILS, "error falls 1×")
    frame.loc[91:, "signal_error"] = 0.0
    assert verdict("error_vanishes", {"a": frame}, subject="a", factor=10.0) == HOLDS
    frame.loc[:50, "signal_error"] = np.nan
    assert verdict("error_vanishes", {"a": frame}, subject="a", factor=10.0) == NOT_DECIDABLE


def seconds(*values: float, form: str = "ring") -> pd.DataFrame:
    return pd.DataFrame({"bandwidth": [1.0, 10.0, 100.0], "seconds_to_level": values, "form": form})


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ((np.nan,) * 3, (1, 1, 1), FAILS),
        ((1, 1, 1), (9, np.nan, 9), NOT_DECIDABLE),
        ((np.nan,) * 3, (np.nan,) * 3, NOT_DECIDABLE),
    ],
)
def test_who_does_not_get_there_is_no_faster(mine: tuple, theirs: tuple, expected: str) -> None:
    curves = {"a": seconds(*mine), "r": seconds(*theirs)}
    options = {"subject": "a", "reference": "r", "times": 2.0, "low": 1, "high": 100}
    assert verdict("times_faster", curves, **options) == expected


@pytest.mark.parametrize(
    ("modelled", "expected", "said"),
    [(0.5, FAILS, "0.5× to 1×"), (1.204, FAILS, "1× to 1.204×"), (1.196, HOLDS, "1× to 1.196×")],
)
def test_a_model_may_err_by_its_share_in_both_directions(modelled: float, expected: str, said: str) -> None:
    frame = pd.DataFrame({"modelled": [1.0, modelled], "seconds_of_round": [1.0, 1.0]})
    result, text = found("as_measured", {"a": frame}, within=0.2)
    assert result == expected
    assert text.startswith(said)


REACHES = claim("3", "as low", "reaches_level", subject="a", reference="ref", within=2.0)


def two_step_sizes(task: str, subject: tuple[float, float], reference: tuple[float, float]) -> pd.DataFrame:
    return pd.concat(
        label_curve(name, task, flat(value), lr=lr)
        for name, values in (("a", subject), ("ref", reference))
        for lr, value in zip((0.1, 0.2), values, strict=True)
    )


def test_claims_are_judged_with_the_best_and_with_equal_step_sizes() -> None:
    frame = pd.concat([two_step_sizes("s", (1.0, 9.0), (4.0, 1.0)), two_step_sizes("t", (1.0, 1.0), (1.0, 1.0))])
    shuffled = mark_best(frame.sample(frac=1, random_state=0))
    findings = judge(shuffled, [REACHES, REACHES.replace(number="3b", check=REACHES.check.replace(within=0.5))])
    assert list(findings.columns) == ["number", "statement", "task", "step_size", "verdict", "measured"]
    assert findings[["number", "task", "step_size", "verdict", "measured"]].values.tolist() == [
        ["3", "s", "best", HOLDS, "1×"],
        ["3", "s", "0.1", HOLDS, "0.25×"],
        ["3", "s", "0.2", FAILS, "9×"],
        *(["3", "t", lr, HOLDS, "1×"] for lr in ("best", "0.1", "0.2")),
        ["3b", "s", "best", FAILS, "1×"],
        ["3b", "s", "0.1", HOLDS, "0.25×"],
        ["3b", "s", "0.2", FAILS, "9×"],
        *(["3b", "t", lr, FAILS, "1×"] for lr in ("best", "0.1", "0.2")),
    ]


def test_only_step_sizes_that_all_methods_share_are_judged() -> None:
    frame = pd.concat([two_step_sizes("s", (1.0, 2.0), (1.0, 1.0)), label_curve("a", "s", flat(1.0), lr=0.3)])
    assert judge(mark_best(frame), [REACHES])["step_size"].tolist() == ["best", "0.1", "0.2"]


def over_seeds(ratios: dict[int, float], negated: bool = False) -> tuple[str, str]:
    """The finding of REACHES where in each seed the subject ends at this ratio to the reference."""
    frame = pd.concat(
        label_curve(name, "s", flat(value), seed=seed)
        for seed, ratio in ratios.items()
        for name, value in (("a", ratio), ("ref", 1.0))
    )
    findings = judge(mark_best(frame), [REACHES.replace(negated=negated)])
    return tuple(findings.loc[findings["step_size"] == "best", ["verdict", "measured"]].iloc[0])


@pytest.mark.parametrize(
    ("ratios", "expected", "measured"),
    [
        ({0: 1.0, 1: 1.5}, HOLDS, "1.2× (1× to 1.5×, 2 seeds)"),
        ({0: 1.5, 3: 1.0, 7: 0.6}, HOLDS, "0.97× (0.6× to 1.5×, 3 seeds)"),
        ({0: 4.0, 1: 9.0}, FAILS, "6× (4× to 9×, 2 seeds)"),
        ({0: 1.0, 1: 9.0}, NOT_DECIDABLE, "seed 0 holds: 1×; seed 1 fails: 9×"),
        ({0: 1.0, 1: np.nan}, NOT_DECIDABLE, "seed 0 holds: 1×; seed 1 not decidable: –"),
        ({0: np.nan, 1: np.nan}, NOT_DECIDABLE, "– (2 seeds alike)"),
        ({5: 1.5}, HOLDS, "1.5×"),
    ],
)
def test_a_claim_holds_or_fails_where_it_does_so_in_every_seed(
    ratios: dict[int, float], expected: str, measured: str
) -> None:
    opposite = {HOLDS: FAILS, FAILS: HOLDS, NOT_DECIDABLE: NOT_DECIDABLE}[expected]
    swapped = measured.replace("holds:", "!").replace("fails:", "holds:").replace("!", "fails:")
    assert over_seeds(ratios) == (expected, measured)
    assert over_seeds(ratios, negated=True) == (opposite, swapped)


def test_a_mean_over_seeds_reads_as_on_its_side_of_both_thresholds() -> None:
    alike = claim("1", "", "ends_alike", subject="a", other="ref", metric="grad_norm", factor=2.0)
    ends = {("a", 0): 0.499, ("a", 1): 0.494, ("ref", 0): 1.0, ("ref", 1): 1.0}
    frame = pd.concat(label_curve(name, "s", flat(value), seed=seed) for (name, seed), value in ends.items())
    measured = judge(mark_best(frame), [alike])["measured"].iloc[0]
    assert measured == "0.496× (0.494× to 0.499×, 2 seeds)"


def test_only_seeds_that_all_methods_of_the_claim_have_are_judged_and_a_report_says_so() -> None:
    def ending(values: dict[int, float], name: str) -> pd.DataFrame:
        return pd.concat(label_curve(name, "s", flat(value), seed=seed) for seed, value in values.items())

    frame = pd.concat([ending({0: 1.0, 1: 99.0}, "a"), ending({0: 1.0, 2: 1.0}, "ref")])
    text = "1×; 1 of 3 seeds, which all its methods have"
    assert judge(mark_best(frame), [REACHES])["measured"].tolist() == [text]
    frame = pd.concat([ending({1: 1.0}, "a"), ending({0: 1.0}, "ref")])
    finding = judge(mark_best(frame), [REACHES]).iloc[0]
    assert (finding["verdict"], finding["measured"]) == (NOT_DECIDABLE, "no seed that all its methods have")
    # A method that the claim says nothing of takes no seed away.
    frame = pd.concat([ending({0: 1.0, 1: 9.0}, "a"), ending({0: 1.0, 1: 1.0}, "ref"), ending({0: 1.0}, "bystander")])
    finding = judge(mark_best(frame), [REACHES]).iloc[0]
    assert (finding["verdict"], finding["measured"]) == (NOT_DECIDABLE, "seed 0 holds: 1×; seed 1 fails: 9×")


def test_claims_are_judged_on_the_tasks_that_have_their_methods_and_measure_their_metric() -> None:
    frames = [label_curve("a", "t", flat(1.0))]
    for name, value in (("a", 1.0), ("b", 9.0)):
        frames += [label_curve(name, "s", flat(value)), label_curve(name, "u", flat(1.0, test_loss=value))]
    frame = mark_best(pd.concat(frames, ignore_index=True))
    low = claim("1", "", "reaches_level", subject="a", reference="b", within=2.0)
    ahead = claim("2", "", "clearly_ahead", subject="a", other="b", metric="test_loss", factor=2.0)
    findings = judge(frame, [low, ahead])
    assert set(zip(findings["number"], findings["task"], strict=True)) == {("1", "s"), ("1", "u"), ("2", "u")}
    assert set(findings["verdict"]) == {HOLDS}


def test_claims_are_about_what_a_task_has_and_about_whole_curves() -> None:
    whole, cut = label_curve("ref", "s", flat(1.0)), label_curve("a", "s", flat(1.0))
    finding = judge(mark_best(pd.concat([whole, cut[cut["round"] <= 50]])), [REACHES]).iloc[0]
    assert (finding["verdict"], finding["measured"]) == (NOT_DECIDABLE, "a ends at round 50 of 100")
    finding = judge(mark_best(whole), [REACHES]).iloc[0]
    assert (finding["verdict"], finding["measured"]) == (NOT_DECIDABLE, "no task has all of: a, grad_norm, ref")
    grows = claim("1", "", "second_moment_grows", subject="ref", reference="ref", factor=2.0)
    assert judge(mark_best(whole), [grows])["measured"].tolist() == ["no task has all of: ref, second_moment"]
