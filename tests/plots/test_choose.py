"""The best step sizes of run folders, against what the rows themselves say."""

import math
from pathlib import Path

import pandas as pd
import pytest
from folder_support import change, folder, rewrite
from renewing import renew

from common.errors import UsageError
from plots.runs.best import choose
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
    noisy, plain = choose(find(place), rule).itertuples()
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
    [(_, choice)] = choose(find(place), rule).iterrows()
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


def test_the_metric_that_the_record_names_decides(tmp_path: Path) -> None:
    path = folder(tmp_path, "a", lrs=(0.1, 0.2))
    declared = {"metric": "margin", "columns": [{"name": "margin", "better": "higher", "label": "least margin"}]}
    change(path, "environment.json", lambda _: declared)
    rewrite(path, lambda row: row | {"margin": 1 - row["lr"]})
    choice = only(tmp_path)
    assert (choice.lr, choice.value) == (0.1, pytest.approx(0.9))
    assert "the highest mean of the least margin over" in choice.rule


@pytest.mark.parametrize("declared", ["lower", "higher", ""])
def test_a_metric_decides_only_where_a_direction_is_declared(declared: str, tmp_path: Path) -> None:
    path = folder(tmp_path, "a", lrs=(0.1, 0.2))
    mine = {"name": "mine", "better": declared}
    change(path, "environment.json", lambda facts: facts | {"columns": [mine] if declared else [], "metric": "mine"})
    rewrite(path, lambda row: row | {"mine": (row["lr"] - 0.15) * row["round"]})
    rows = results(find(tmp_path))
    asked = [
        lambda: choose(find(tmp_path), "best_mine")["lr"][0],
        lambda: rows.best("mine")["lr"][0],
        lambda: rows.bits_to("mine", {"lower": -1, "higher": 1}.get(declared, 0))["lr"][0],
    ]
    if declared:
        assert [ask() for ask in asked] == [{"lower": 0.1, "higher": 0.2}[declared]] * 3
    for ask in asked if not declared else ():
        with pytest.raises(UsageError, match=r'add Column\("mine", better=...\) to the `columns` of its task'):
            ask()
    assert ("gradient norm" in only(tmp_path).rule) == (not declared)


def test_a_metric_that_no_run_has(place: Path) -> None:
    with pytest.raises(UsageError, match="select=final_gard_norm: no such choice; did you mean final_grad_norm"):
        choose(find(place), "final_gard_norm")
    with pytest.raises(UsageError, match="select=best_seconds: no such choice"):
        choose(find(place), "best_seconds")
