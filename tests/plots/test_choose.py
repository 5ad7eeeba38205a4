"""The best step sizes of run folders, against what the rows themselves say, and of hand-made curves."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from curve_support import curve, label_curve
from folder_support import change, folder, rewrite
from renewing import renew

from common.errors import UsageError
from plots.runs.best import Rule, choose_step_sizes, level, mark_best, rank_step_sizes, rule_in_words
from plots.runs.find import find
from plots.runs.results import results

LRS = (0.1, 0.3, 0.5)


def wavy(t: int, lr: float, seed: int) -> float:
    """Curves of which none is best by every rule."""
    return (1.1 + math.sin(t * (1 + 10 * lr) + seed)) * (1 - lr / 100) ** t


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two methods with three step sizes, in one run a seed for one of them and in six for the other."""
    for seed in (0, 1):
        folder(tmp_path, f"grid{seed}", seed=seed, lrs=LRS, norm=wavy)
        for lr in LRS:
            folder(tmp_path, f"one{seed}-{lr}", algorithm="noisy", seed=seed, lrs=(lr,), norm=wavy)
    return tmp_path


def came_to(rule: str | None, lr: float) -> float:
    """What a step size came to in both seeds, by the rule's definition."""
    values = []
    for seed in (0, 1):
        norms = [wavy(t, lr, seed) for t in range(0, 101, 10)]
        accuracies = [0.5 + 0.4 * t / 100 for t in range(0, 101, 10)]
        of = {"final_grad_norm": norms[-1], "best_grad_norm": min(norms), "best_train_accuracy": max(accuracies)}
        values.append(of[rule] if rule else norms[-1])  # the last tenth of the rounds is round 100 alone
    return sum(values) / 2 if rule == "best_train_accuracy" else math.sqrt(values[0] * values[1])


@pytest.mark.parametrize("rule", [None, "final_grad_norm", "best_grad_norm", "best_train_accuracy"])
def test_the_best_by_the_rows(rule: str | None, place: Path) -> None:
    noisy, plain = choose_step_sizes(find(place), rule).itertuples()
    assert (noisy.algorithm, plain.algorithm) == ("noisy", "plain")
    order = sorted(LRS, key=lambda lr: (came_to(rule, lr) * (-1 if rule == "best_train_accuracy" else 1), lr))
    for choice in (noisy, plain):
        assert (choice.lr, choice.second) == tuple(order[:2])
        assert choice.value == pytest.approx(came_to(rule, order[0]), rel=1e-12)
        assert choice.second_value == pytest.approx(came_to(rule, order[1]), rel=1e-12)
        assert (choice.task, choice.seeds, choice.settings) == ("toy", "0 1", "")
        edges = {0.1: "smaller", 0.5: "larger"}
        assert (f"at the edge of the grid: try {edges.get(choice.lr)}" in choice.note) == (choice.lr in edges)


def only(place: Path, rule: str | None = None) -> pd.Series:
    [(_, choice)] = choose_step_sizes(find(place), rule).iterrows()
    return choice


def test_what_cannot_win_is_named(tmp_path: Path) -> None:
    for seed in (0, 1):
        path = folder(tmp_path, f"a{seed}", seed=seed, lrs=(0.1, 0.2, 0.25))
        rewrite(path, lambda row: row | ({"train_loss": 1 + row["round"]} if row["lr"] == 0.25 else {}))
    folder(tmp_path, "b", lrs=(0.3,))
    failed = folder(tmp_path, "c", seed=1, lrs=(0.3,), status="failed", reached=50)
    (failed / "metrics.jsonl").write_text("")
    renew(failed)
    choice = only(tmp_path)
    assert (choice.lr, choice.second) == (0.2, 0.1)
    assert choice.note == "loss ends above its start: lr=0.25; not finished: lr=0.3 seed=1"


@pytest.mark.parametrize("declared", ["lower", "higher", ""])
def test_a_metric_decides_only_where_a_direction_is_declared(declared: str, tmp_path: Path) -> None:
    path = folder(tmp_path, "a", lrs=(0.1, 0.2))
    mine = {"name": "mine", "better": declared, "label": "least margin"}
    change(path, "environment.json", lambda facts: facts | {"columns": [mine] if declared else [], "metric": "mine"})
    rewrite(path, lambda row: row | {"mine": (row["lr"] - 0.15) * row["round"]})
    rows = results(find(tmp_path))
    asked = [
        lambda: choose_step_sizes(find(tmp_path), "best_mine")["lr"][0],
        lambda: rows.best("mine")["lr"][0],
        lambda: rows.bits_to("mine", {"lower": -1, "higher": 1}.get(declared, 0))["lr"][0],
    ]
    if declared:
        assert [ask() for ask in asked] == [{"lower": 0.1, "higher": 0.2}[declared]] * 3
    for ask in asked if not declared else ():
        with pytest.raises(UsageError, match=r'add Column\("mine", better=...\) to the `columns` of its task'):
            ask()
    choice, low = only(tmp_path), "lowest geometric mean (arithmetic for negative values)"
    best, rule = {"lower": (0.1, low), "higher": (0.2, "highest mean"), "": (None, "")}[declared]
    assert best is None or (choice.lr, choice.value) == (best, pytest.approx((best - 0.15) * 100))
    assert (f"the {rule} of the least margin over" if declared else "gradient norm") in choice.rule


def test_a_metric_that_no_run_has(place: Path) -> None:
    with pytest.raises(UsageError, match="select=final_gard_norm: no such choice; did you mean final_grad_norm"):
        choose_step_sizes(find(place), "final_gard_norm")
    with pytest.raises(UsageError, match="select=best_seconds: no such choice"):
        choose_step_sizes(find(place), "best_seconds")


EVERY = tuple(range(101))


def best(frame: pd.DataFrame) -> dict[tuple[str, str], set[float]]:
    """The step sizes marked for each task and method."""
    marked = frame[frame["best"]]
    return {key: set(rows["lr"]) for key, rows in marked.groupby(["task", "algorithm"])}


def test_level_is_the_geometric_mean_of_the_last_tenth_or_another_share() -> None:
    # Rounds 91 to 100; round 90, the boundary, is out.
    frame = curve(lambda r: np.where(r > 90, 10.0 ** (r - 95), 1e50), EVERY)
    assert level(frame) == pytest.approx(10**0.5, rel=1e-12)
    powers = curve(lambda r: 2.0**r, EVERY)
    for begin, end, power in ((0, 0.1, 5.5), (0.4, 0.5, 45.5), (0.99, 1, 100), (0, 1, 50.5)):
        assert level(powers, begin=begin, end=end) == pytest.approx(2**power, rel=1e-12)
    assert math.isnan(level(curve([1.0, 2.0], (0, 100)), begin=0.4, end=0.5))  # where no row lies


def test_level_of_a_curve_that_reaches_zero_is_finite_and_lowest() -> None:
    zero = level(curve([1.0] * 10 + [0.0]))
    assert 0 < zero < 1e-300
    assert zero < level(curve([1.0] * 10 + [1e-200]))


def by_seed(values: dict[float, dict[int, float]], metric: str = "grad_norm", **columns: object) -> pd.DataFrame:
    """One method on one task, constant at a value for each step size and seed."""
    return pd.concat(
        label_curve("a", "t", curve(lambda r: 0 * r + 1.0, **columns), lr=lr, seed=seed).assign(**{metric: value})
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
    assert ("(arithmetic for negative values)" in rule_in_words(marked, metric)) == (lr == 0.3)
    assert marked["best"].sum() == len(values[lr]) * 11  # all seeds of it


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_trial_that_diverged_comes_last(bad: float) -> None:
    frame = by_seed({0.1: {0: bad}, 0.2: {0: 1e9}})
    assert best(mark_best(frame)) == {("t", "a"): {0.2}}
    assert rank_step_sizes(frame, Rule("grad_norm"))["why_not"].tolist() == ["", "not finished"]
    assert best(mark_best(by_seed({0.1: {0: 1e-9, 1: bad}, 0.2: {0: 1e9, 1: 1e9}}))) == {("t", "a"): {0.2}}
    assert best(mark_best(by_seed({0.2: {0: bad}, 0.1: {0: bad}}), "grad_norm")) == {("t", "a"): {0.1}}


def test_what_cannot_be_selected_by_is_refused() -> None:
    with pytest.raises(ValueError, match="trian_loss: no run has this metric"):
        mark_best(by_seed({0.1: {0: 1.0}}), "trian_loss")
