"""The rules of the leaderboard, on curves whose answers are known, against scipy and by hand."""

import math
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from leaderboard_support import D, entry
from scipy import stats

from plots.claims.check import NOT_DECIDABLE
from plots.leaderboard.claims import BitsClaim, judge
from plots.leaderboard.draw import dots, entry_curves, front
from plots.leaderboard.effects import effects
from plots.leaderboard.ranking import ALL, Goals, in_words, needs_by_level, rank
from plots.leaderboard.statistics import (
    AHEAD,
    TIE,
    compare,
    differences,
    geometric_interval,
    holm,
    least_pairs,
    messages,
    needs,
    on_front,
    ranks,
    signed_rank,
)

GOALS = {"toy": ("train_loss", (0.5, 0.1)), "other": ("train_loss", (0.5, 0.1))}


def both(name: str, *values: float, **options: object) -> pd.DataFrame:
    """The rows of an entry on two tasks."""
    return pd.concat([entry(name, *values, task=task, **options) for task in GOALS], ignore_index=True)


def ranking_of(frame: pd.DataFrame, goals: Goals = GOALS, seeds: int = 10) -> tuple[pd.DataFrame, pd.DataFrame]:
    return rank(frame, goals, needs_by_level(frame, goals), seeds)


def verdict(*entries: pd.DataFrame, level: float = 0.1) -> pd.Series:
    """How the first two compare."""
    return compare(needs(pd.concat(entries), "train_loss", level)).iloc[0]


@pytest.mark.parametrize("count", [3, 5, 10, 13, 20, 45])
def test_signed_ranks_against_scipy(count: int) -> None:
    rng = np.random.default_rng(count)
    drawn = rng.normal(0.4, 1, count)
    p, sign = signed_rank(drawn)
    assert p == pytest.approx(stats.wilcoxon(drawn, method="exact").pvalue)
    less, more = (stats.wilcoxon(drawn, alternative=way, method="exact").pvalue for way in ("less", "greater"))
    assert sign == (1 if more < less else -1)
    tied = np.round(drawn) + 2 * (np.round(drawn) == 0)
    if count <= 10:  # of more than 13 with ties scipy has no exact p
        assert signed_rank(np.append(tied, 0.0)) == (pytest.approx(stats.wilcoxon(tied).pvalue), np.sign(sum(tied)))
    assert signed_rank(np.full(count, 0.3)) == (2.0 ** (1 - count), 1)  # the least p that so many pairs can have
    assert signed_rank(np.append(np.full(count, -np.inf), 0.0)) == (2.0 ** (1 - count), -1)


def test_pairs_that_do_not_differ_and_none() -> None:
    assert signed_rank(np.zeros(10)) == signed_rank(np.array([])) == (1.0, 0)
    assert signed_rank(np.array([1e-14, 0.3, 0.3, 0.3])) == signed_rank(np.full(3, 0.3))  # no difference: a rounding


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.5])) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm(np.array([0.4, 0.6])) == pytest.approx([0.8, 0.8])
    assert holm(np.array([])).tolist() == []


def test_an_interval_is_that_of_scipys_t_test() -> None:
    values = np.array([1.0e6, 1.3e6, 0.9e6, 1.1e6, 2.0e6])
    ends = np.exp(stats.ttest_1samp(np.log(values), 0).confidence_interval())
    assert geometric_interval(values) == pytest.approx((stats.gmean(values), *ends))
    mean, low, high = geometric_interval(values, is_bound=True)
    assert (mean, low, high) == (pytest.approx(stats.gmean(values)), pytest.approx(ends[0]), math.inf)
    assert geometric_interval(np.full(3, 7.0)) == pytest.approx((7, 7, 7))
    one = geometric_interval(values[:1])
    assert one[0] == pytest.approx(1e6)
    assert np.isnan(one[1:]).all()


def test_needs_are_those_of_the_first_evaluation_there() -> None:
    frame = entry("plain", 1.0, 2.0, 1.0, seeds=[0, 1], gradient_calls=None)
    found = needs(frame, "train_loss", 0.1).loc[("toy", "plain")]
    # exp(-round/100) is at 0.1 after 230.26 rounds, and exp(-1.01 round/100) after 227.98.
    assert found["round"].tolist() == [232, 228]
    assert found["bits"].tolist() == [3 * D * 232, 3 * D * 228]
    assert found["bits_up"].tolist() == [2 * D * 232, 2 * D * 228]
    assert found["gradient_calls"].tolist() == [232, 228]
    assert found["spent"].tolist() == [3 * D * 400] * 2
    doubled = frame.assign(gradient_calls=2 * frame["round"])
    assert needs(doubled, "train_loss", 0.1)["gradient_calls"].tolist() == [464, 456]


@pytest.mark.parametrize(("options", "spent"), [({"rate": 0.5}, 400), ({"ends_at": 300}, 300)])
def test_a_run_that_is_not_there_or_diverges_has_no_need(options: dict, spent: int) -> None:
    found = needs(entry("plain", seeds=[0], **options), "train_loss", 0.1)
    assert found["bits"].isna().all()
    assert found["spent"].tolist() == [64 * D * spent]


def test_a_level_of_the_start_is_refused() -> None:
    with pytest.raises(ValueError, match="before anything is sent"):
        needs(entry("plain"), "train_loss", 1.0)


def test_differences_of_runs_that_are_there_and_that_are_not() -> None:
    mine, theirs = np.array([100, 100, math.nan, math.nan]), np.array([200, math.nan, 100, math.nan])
    assert differences(mine, theirs) == pytest.approx([math.log(2), math.inf, -math.inf, 0])


def test_ahead_a_tie_and_what_is_not_decidable() -> None:
    dense, signs = both("dense"), both("signs", 0.8, 1.0, 1.0)
    found = verdict(dense, signs)
    assert (found["verdict"], found["winner"], found["pairs"]) == (AHEAD, "signs", 20)
    assert found["p"] == found["corrected"] == 2.0**-19
    # One that is better with half of the seeds and worse with the others.
    mixed = both("mixed", noise=lambda seed: 1.3 if seed % 2 else 0.8)
    assert verdict(dense, mixed)["verdict"] == TIE
    assert verdict(both("a", 0.1), both("b", 0.1))["verdict"] == NOT_DECIDABLE  # neither reached the level
    few = verdict(entry("dense", seeds=range(5)), entry("signs", 0.8, 1.0, 1.0, seeds=range(5)))
    assert (few["p"], few["verdict"], few["winner"]) == (0.0625, NOT_DECIDABLE, "")
    ten = entry("dense"), entry("signs", 0.8, 1.0, 1.0)
    assert (verdict(*ten)["p"], verdict(*ten)["verdict"]) == (2.0**-9, AHEAD)
    others = [entry(name, rate) for name, rate in (("third", 0.9), ("fourth", 0.85))]
    assert verdict(*ten, *others)["verdict"] == NOT_DECIDABLE  # six pairs need a p of 0.0017


@pytest.mark.parametrize("tests", [1, 5, 6, 45, 780])
def test_the_least_pairs_with_which_an_entry_can_be_ahead(tests: int) -> None:
    least = least_pairs(tests)
    assert 2.0 ** (1 - least) * tests < 0.01 <= 2.0 ** (2 - least) * tests


def test_seeds_that_change_nothing_are_one_pair() -> None:
    one, other = (entry(name, rate, noise=lambda seed: 1.0) for name, rate in (("one", 1.0), ("other", 0.5)))
    found = verdict(one, other, level=0.5)
    assert (found["pairs"], found["p"], found["verdict"]) == (1, 1.0, NOT_DECIDABLE)


def test_ranks_count_who_is_ahead() -> None:
    rows = [("a", "b", AHEAD, "a"), ("a", "c", AHEAD, "a"), ("b", "c", TIE, ""), ("a", "d", AHEAD, "d"),
            ("b", "d", NOT_DECIDABLE, ""), ("c", "d", NOT_DECIDABLE, "")]  # fmt: skip
    compared = pd.DataFrame(rows, columns=["one", "other", "verdict", "winner"])
    assert ranks(compared, "abcd").to_dict() == {"a": 2, "b": 2, "c": 2, "d": 1}
    assert ranks(compared, "abc").to_dict() == {"a": 1, "b": 2, "c": 2}
    assert ranks(compared, "bd").empty
    assert ranks(compared, "a").to_dict() == {"a": 1}


def test_the_front_by_hand() -> None:
    cost, badness = np.array([1, 2, 2, 3, 1, 5.0]), np.array([5, 3, 4, 3, 5, np.nan])
    assert on_front(cost, badness).tolist() == [True, True, False, False, True, False]


def test_what_messages_are_is_read_from_their_bits() -> None:
    warm = entry("warm", 1.0, 1.0, 1.0)
    for way in ("bits_up", "bits_down"):  # dense for the first 100 rounds
        warm[way] = D * (32 * warm["round"].clip(upper=100) + (warm["round"] - 100).clip(lower=0))
    local = entry("local", 1, 16, 16, stages=0.5)  # float32 in every other round
    frame = pd.concat([warm, entry("dense"), entry("half", 1, 16, 16), entry("uplink", 1, 1, 32), local])
    found = messages(frame)
    ways = {"dense": "none", "half": "up and down", "local": "up and down", "uplink": "up", "warm": "up and down"}
    assert found["compressed"].to_dict() == ways
    assert found["warm_up"].to_dict() == {"dense": 0, "half": 0, "local": 0, "uplink": 0, "warm": 0.25}
    assert found["width"].dropna().to_dict() == {"dense": 32, "half": 16}


def test_a_ranking_whose_answer_is_known() -> None:
    """AMSGrad, the same under another name with an honest code, with bf16, a method with half as many rounds more and
    a thirty-second of the bits a round, and one that does not get to the harder level."""
    others = [both("half", 1, 16, 16), both("signs", 2 / 3, 1, 1), both("slow", 0.5)]
    found, pairs = ranking_of(pd.concat([both("amsgrad"), both("honest"), *others]))
    hard = found[(found["level"] == 2) & (found["task"] == ALL)].set_index("entry")
    assert hard["rank"].dropna().to_dict() == {"signs": 1, "half": 2, "amsgrad": 3, "honest": 3}
    assert hard.index[-1] == "slow"
    assert hard["reached"].to_dict() == {"signs": 20, "half": 20, "amsgrad": 20, "honest": 20, "slow": 0}
    assert hard.loc["honest", "bits"] == hard.loc["amsgrad", "bits"]
    assert hard["times_32"].dropna().to_dict() == pytest.approx(
        {"signs": 32 * 2 / 3, "half": 2, "amsgrad": 1, "honest": 1}, rel=0.02
    )
    assert hard["times_16"].dropna().to_dict() == pytest.approx(
        {"signs": 16 * 2 / 3, "half": 1, "amsgrad": 0.5, "honest": 0.5}, rel=0.02
    )
    assert (hard.loc["slow", "bits"], hard.loc["slow", "bits_high"]) == (pytest.approx(64 * D * 400), math.inf)
    told = pairs[(pairs["level"] == 2) & (pairs["verdict"] == TIE)]
    assert told[["one", "other"]].to_numpy().tolist() == [["amsgrad", "honest"]]
    ends = found[(found["level"] == 1) & (found["task"] == "toy")].set_index("entry")
    assert ends["front"].to_dict() == {"signs": True, "half": True, "amsgrad": False, "honest": False, "slow": False}
    # (n - 1)/n of the bits each way on links of 100 Mbit/s, and four hops of 1 ms a round.
    rounds = ends.loc["amsgrad", "round"]
    assert ends.loc["amsgrad", "seconds_100M_8"] == pytest.approx(rounds * (7 / 8 * 64 * D / 1e8 + 0.004))
    noted = hard.reset_index().assign(note=lambda rows: rows["entry"].map({"half": "3 of 20 seeds"}).fillna(""))
    text = in_words(noted).set_index("entry")
    assert [name for name in text.index if name.endswith("*")] == ["Half *"]
    assert text.loc["Slow", ["rank", "bits", "reached", "× float32"]].tolist() == ["–", "> 2.56e7", "0/20", "–"]


def test_an_entry_without_all_runs_has_no_rank_and_one_alone_is_first() -> None:
    found, _ = ranking_of(pd.concat([both("amsgrad"), entry("toy only", 2.0)]))
    ranked = found[found["task"] == ALL].groupby("entry")["rank"].first()
    assert ranked.dropna().to_dict() == {"amsgrad": 1}
    lacking = found[(found["task"] == ALL) & (found["entry"] == "toy only")]
    assert lacking[["bits", "round", "times_32"]].isna().all(axis=None)  # other tasks may take more bits
    partly = pd.concat([both("partly", seeds=range(5)), entry("partly", 9.0, seeds=range(5, 10))])
    means = [
        ranking_of(some)[0].query("task == @ALL")["round"].tolist() for some in (partly, both("x", seeds=range(5)))
    ]
    assert means[0] == pytest.approx(means[1])  # over the seeds that ran on all tasks, as the bits
    longer = {**GOALS, "absent": ("train_loss", (0.5, 0.1, 0.01))}
    assert ranking_of(both("amsgrad"), longer)[0]["level"].unique().tolist() == [1, 2]
    assert found.loc[(found["task"] == ALL) & (found["entry"] == "amsgrad"), "times_32"].tolist() == [1, 1]
    found, pairs = ranking_of(entry("amsgrad"), {"toy": GOALS["toy"]})
    assert pairs.empty
    assert found.loc[found["task"] == ALL, "rank"].tolist() == [1, 1]
    few = both("amsgrad", seeds=range(5))
    others = [both("half", 1, 16, 16, seeds=range(5)), both("slow", 0.5, seeds=range(5))]
    found, pairs = ranking_of(pd.concat([few, *others]))
    assert pairs["verdict"].eq(AHEAD).any()  # two tasks of five seeds are ten pairs
    assert found[["rank", "times_32", "times_16"]].isna().all(axis=None)


def test_with_too_few_pairs_nobody_has_a_rank_not_even_the_only_one_to_reach_a_level() -> None:
    some = [entry("amsgrad", seeds=range(3)), entry("slow", 0.5, seeds=range(3))]
    found, _ = ranking_of(pd.concat(some), {"toy": GOALS["toy"]}, seeds=3)
    assert found.loc[found["level"] == 2, "reached"].tolist() == [3, 0, 3, 0]
    assert found["rank"].isna().all()


def test_a_part_is_judged_by_the_entries_that_share_all_others() -> None:
    """Memory b takes half the bits of a with each update; without memory only update y gets there, on one task."""
    bits = {("a", "x"): 32, ("b", "x"): 16, ("a", "y"): 8, ("b", "y"): 4, ("none", "x"): 2, ("none", "y"): 2}
    entries = []
    for ((memory, update), up), task in product(bits.items(), GOALS):
        misses = memory == "none" and (update, task) != ("y", "toy")
        entries.append(entry(memory + update, 0.01 if misses else 1.0, up, up, task=task))
    parts = pd.DataFrame(list(bits), columns=["memory", "update"], index=["".join(key) for key in bits])
    found = effects(needs(pd.concat(entries), "train_loss", 0.1), parts).set_index(["one", "other"])
    assert len(found) == 4
    counts = ["cases", "both", "one_alone", "other_alone"]
    assert found.loc[("a", "b"), counts].tolist() == [4, 4, 0, 0]
    assert found.loc[("a", "b"), ["times", "low", "high"]].tolist() == pytest.approx([2, 2, 2])
    assert found.loc[("b", "none"), counts].tolist() == [4, 1, 3, 0]
    assert found.loc[("b", "none"), "times"] == pytest.approx(2)  # of y alone, on one task
    assert found.loc[("x", "y"), counts].tolist() == [6, 4, 0, 1]
    assert found.loc[("x", "y"), "times"] == pytest.approx(4)


def test_runs_that_are_not_there_are_no_runs_that_miss_the_level() -> None:
    few = [both("few", seeds=range(5)), entry("toy only")]
    parts = pd.DataFrame({"memory": list("abc"), "update": "x"}, index=["all", "few", "toy only"])
    found = effects(needs(pd.concat([both("all"), *few]), "train_loss", 0.1), parts).set_index(["one", "other"])
    assert found[["cases", "both"]].to_numpy().tolist() == [[2, 0], [1, 1], [1, 0]]
    assert not found[["one_alone", "other_alone"]].any(axis=None)


def test_a_run_that_diverges_before_its_first_message_is_counted_leaves_a_ranking() -> None:
    at_once = pd.concat([both("odd", seeds=range(1, 10)), both("odd", seeds=[0]).query("round == 0")])
    found, pairs = ranking_of(pd.concat([both("amsgrad"), at_once, both("never").query("round == 0")]))
    odd = found[(found["task"] == ALL) & (found["entry"] == "odd")].iloc[0]
    assert (odd["bits"], odd["bits_high"], odd["reached"]) == (0, math.inf, 18)
    assert pairs.query("one == 'amsgrad' and other == 'odd'")["winner"].tolist() == ["", ""]
    assert found.loc[found["entry"] == "never", "label"].unique().tolist() == ["Never"]
    never = ranking_of(both("never").query("round == 0"))[0]
    assert never["bits"].unique().tolist() == [0]
    assert [axis.texts[0].get_text() for axis in front(never).axes] == ["in each entry some seed diverged"] * 2


@pytest.mark.slow
def test_pictures_have_room_for_long_names_and_tell_entries_of_one_method_apart() -> None:
    tasks = {f"task {n}": ("train_loss", (0.5, 0.1, 0.075)) for n in range(4)}
    names = [f"error feedback, update=sgd, compressor=scaled_sign {n}" for n in range(3)]
    frame = pd.concat(entry(name, 1 + n, up=8 * (1 + n), task=task) for task in tasks for n, name in enumerate(names))
    ranking = ranking_of(frame, tasks)[0]
    for picture, least in ((dots(ranking), 1), (front(ranking), 2)):
        picture.canvas.draw()
        for axis in picture.axes:
            assert axis.get_window_extent().width > least * picture.dpi
            assert axis.get_tightbbox().x0 >= -1
            assert axis.get_tightbbox().x1 <= picture.bbox.width + 1
        plt.close(picture)
    picture = entry_curves(frame, tasks)
    looks = [(line.get_color(), line.get_marker(), line._dash_pattern[1]) for line in picture.axes[0].get_lines()]
    assert len({str(look) for look in looks}) == len(names)
    plt.close(picture)


BITS = {"statement": "", "subject": "mine", "reference": "dense"}
CLAIMS = [BitsClaim(number=1, times=32, within=1.5, **BITS), BitsClaim(number="2", times=4, **BITS)]


@pytest.mark.parametrize(
    ("subject", "about", "at_least", "said"),
    [
        (both("mine", 1.0, 1.0, 1.0), "holds", "holds", "32 times [32, 32]"),
        (both("mine", 1.0, 4.0, 4.0), "fails", "holds", "8 times [8, 8]"),
        (both("mine", 1.0, 8.0, 8.0), "fails", "not decidable", "4 times [4, 4]"),
        (both("mine", 1.0, 16.0, 16.0), "fails", "fails", "2 times [2, 2]"),
        (both("mine", 1.0, seeds=range(4)), "not decidable", "not decidable", "4 seeds of both; 5 are needed"),
        (both("mine", 0.1, 1.0, 1.0), "fails", "fails", "mine misses the level in 10 of 10 seeds"),
        (both("mine", 2.0, 2.0, 2.0, noise=lambda seed: 1.0 if seed else 0.305), "not decidable", "holds",
         "27 times [21, 35]"),
    ],
)  # fmt: skip
def test_a_claim_about_bits(subject: pd.DataFrame, about: str, at_least: str, said: str) -> None:
    missing = CLAIMS[1].replace(number="3", reference="none")
    found = judge(needs_by_level(pd.concat([subject, both("dense", 1.0)]), GOALS), [*CLAIMS, missing])
    hardest = found[(found["level"] == 2) & (found["task"] == "toy")]
    expected = [["1", about, said], ["2", at_least, said]]
    assert hardest[["number", "verdict", "measured"]].to_numpy().tolist() == expected
    assert len(found) == len(GOALS) * 2 * len(CLAIMS)


def test_equal_bits_are_not_fewer() -> None:
    frame = pd.concat([both("mine", 1.0), both("dense", 1.0)]).assign(bits=lambda rows: rows["round"])
    found = judge(needs_by_level(frame, GOALS), [BitsClaim(number="4", times=1, **BITS)])
    assert found["verdict"].unique() == ["fails"]


def test_a_claim_if_the_reference_misses_the_level() -> None:
    slow = both("dense", 0.1)
    found = judge(needs_by_level(pd.concat([both("mine", 1.0, 8.0, 8.0), slow]), GOALS), CLAIMS)
    assert found["verdict"].tolist()[-2:] == ["not decidable", "holds"]
    assert found["measured"].iloc[-1].startswith("> 7.2 times")
    levels = needs_by_level(pd.concat([both("mine", 0.1), slow]), GOALS)
    found = judge(levels, CLAIMS)
    assert found["verdict"].unique() == ["not decidable"]
    assert found["measured"].unique() == ["mine misses the level in 10 of 10 seeds, dense in 10"]
