"""Choosing step sizes, against what the rows themselves say."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from run_support import SMALL, go, rows, stopped, where
from sweep_support import cells, sweep

from common.errors import UsageError
from experiments import run
from experiments.sweep.job import Job
from experiments.sweep.selection import choose, measured, outcome

RANDOM = ("task.batch_size=3", "cluster.workers=4")
LRS = (0.01, 0.3, 1e3)


def of(path: Path, lr: float, metric: str) -> list[float]:
    """A metric of a run's every row with one step size."""
    return [row[metric] for row in rows(path) if math.isclose(row["lr"], lr)]


def expected(results: str, algorithm: str, rule: str) -> dict[float, float]:
    """What each step size of `swept` came to, by its definition."""
    came_to = {}
    kind, metric = rule.split("_", 1)
    best = max if metric.endswith("accuracy") else min
    for lr in LRS:
        values = []
        for seed in (0, 1):
            path = where(*SMALL, *RANDOM, f"algorithm={algorithm}", f"lr={lr}", f"seed={seed}", results)
            curve = of(path, lr, metric)
            values.append(curve[-1] if kind == "final" else best(curve))
        came_to[lr] = sum(values) / 2 if best is max else math.sqrt(values[0] * values[1])
    return came_to


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where two methods were run with every step size and two seeds."""
    results = f"results_dir={tmp_path_factory.mktemp('swept')}"
    for algorithm in ("cd_adam", "ef21"):
        for lr in LRS:
            for seed in (0, 1):
                go(*SMALL, *RANDOM, f"algorithm={algorithm}", f"lr={lr}", f"seed={seed}", results)
    return results


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started here but what fails at once."""

    def start(job: Job, slot: int) -> None:
        raise AssertionError(f"started: {job.log}")

    monkeypatch.setattr(Job, "start", start)


COMMAND = (*RANDOM, "algorithm=cd_adam,ef21", "lr=0.01,0.3,1e3", "seed=0,1")


@pytest.mark.parametrize("rule", ["final_grad_norm", "best_grad_norm", "final_train_loss", "best_train_accuracy"])
def test_the_best_by_the_rows(rule: str, swept: str) -> None:
    found, _ = cells(*COMMAND, swept)
    choices = choose(found, rule)
    assert [choice.algorithm for choice in choices] == ["cd_adam", "ef21"]
    for choice in choices:
        came_to = expected(swept, choice.algorithm, rule)
        order = sorted(LRS, key=lambda lr: came_to[lr], reverse=rule.endswith("accuracy"))
        assert (choice.lr, choice.second) == tuple(order[:2])
        assert choice.value == pytest.approx(came_to[order[0]], rel=1e-12)
        assert choice.second_value == pytest.approx(came_to[order[1]], rel=1e-12)
        assert (choice.task, choice.seeds) == ("logreg/breast_cancer", "0 1")
        edges = {0.01: "smaller", 1e3: "larger"}
        assert (f"at the edge of the grid: try {edges.get(choice.lr)}" in choice.note) == (choice.lr in edges)


def test_it_is_printed_and_written(swept: str, capsys: pytest.CaptureFixture) -> None:
    assert sweep(*COMMAND, "select=final_grad_norm", swept) == 0
    printed = capsys.readouterr().out.splitlines()
    choices = choose(cells(*COMMAND, swept)[0], "final_grad_norm")
    [file] = Path(swept.partition("=")[2]).glob("sweeps/*/selection.csv")
    with file.open() as stream:
        written = list(csv.DictReader(stream))
    assert [float(line["lr"]) for line in written] == [choice.lr for choice in choices]
    assert [float(line["value"]) for line in written] == [choice.value for choice in choices]
    assert printed[0].split("\t")[:5] == ["task", "algorithm", "settings", "best lr", "final_grad_norm"]
    assert [line.split("\t")[3] for line in printed[1:3]] == [f"{choice.lr:g}" for choice in choices]
    # The commands are those of runs that are there already.
    for command, choice in zip(printed[3:], choices, strict=True):
        words = command.split()
        assert words[:3] == ["python", "-m", "experiments.run"]
        assert f"algorithm={choice.algorithm}" in words
        run.main(words[3:])
        assert "already finished" in capsys.readouterr().err


def test_a_batched_grid_has_the_same_candidates(swept: str, tmp_path: Path) -> None:
    results = f"results_dir={tmp_path}"
    for seed in (0, 1):
        go(*SMALL, *RANDOM, "algorithm=ef21", "lr=[0.01,0.3]", f"seed={seed}", results)
        go(*SMALL, *RANDOM, "algorithm=ef21", "lr=1e3", f"seed={seed}", results)
    found, _ = cells(*RANDOM, "algorithm=ef21", "lr=[0.01,0.3],1e3", "seed=0,1", results)
    [mixed] = choose(found, "final_grad_norm")
    [_, apart] = choose(cells(*COMMAND, swept)[0], "final_grad_norm")
    assert (mixed.lr, mixed.second, mixed.note) == (apart.lr, apart.second, apart.note)
    assert mixed.value == pytest.approx(apart.value, rel=1e-9)


@pytest.mark.parametrize("rule", [None, "best_grad_norm", "final_train_accuracy"])
def test_a_finished_run_is_told_by_its_best_step_size(rule: str | None, results: str) -> None:
    lrs = (0.0003, 0.1, 1e3)
    path = go(*SMALL, "algorithm=sgd", "lr=[0.0003,0.1,1e3]", results)
    [cell] = cells("algorithm=sgd", "lr=[0.0003,0.1,1e3]", results)[0]
    kind, _, metric = (rule or "final_train_loss").partition("_")
    best = max if metric.endswith("accuracy") else min
    came_to = {lr: of(path, lr, metric)[-1] if kind == "final" else best(of(path, lr, metric)) for lr in lrs}
    lr = best(came_to, key=came_to.get)
    said = outcome(cell, rule)
    assert said.startswith(f"lr {lr:g}: train_loss {of(path, lr, 'train_loss')[-1]:.4g}, ")
    assert said.endswith(" bits, best of 3 step sizes")
    summary = json.loads((path / "summary.json").read_text())
    for trial in summary["trials"]:
        del trial["final"]["train_loss"]
    (path / "summary.json").write_text(json.dumps(summary))
    assert outcome(cell, None).endswith(" bits, the first of 3 step sizes")
    go(*SMALL, "algorithm=sgd", "lr=0.1", results)
    [alone] = cells("algorithm=sgd", "lr=0.1", results)[0]
    assert outcome(alone, None).endswith(" bits")


def test_other_settings_are_chosen_for_apart(results: str) -> None:
    for ratio in ("0.1", "1.0"):
        for lr in ("0.01", "0.1"):
            go(*SMALL, "algorithm=ef21", f"compressor.ratio={ratio}", f"lr={lr}", results)
    choices = choose(
        cells("algorithm=ef21", "compressor.ratio=0.1,1.0", "lr=0.01,0.1", results)[0], "final_train_loss"
    )
    assert [[text for text in choice.overrides if "ratio" in text] for choice in choices] == [
        ["compressor.ratio=0.1"], ["compressor.ratio=1.0"]
    ]  # fmt: skip
    for choice, ratio in zip(choices, ("0.1", "1.0"), strict=True):
        last = [
            of(where(*SMALL, "algorithm=ef21", f"compressor.ratio={ratio}", f"lr={lr}", results), lr, "train_loss")[
                -1
            ]
            for lr in (0.01, 0.1)
        ]
        assert choice.value == min(last)


def test_what_diverged_is_no_candidate_and_named(results: str) -> None:
    for lr, seeds in (("0.01", (0, 1)), ("0.1", (0,))):
        for seed in seeds:
            go(*SMALL, *RANDOM, "algorithm=sgd", f"lr={lr}", f"seed={seed}", results)
    assert stopped([*SMALL, *RANDOM, "algorithm=sgd", "lr=1e308", results]) == 1
    found, _ = cells(*RANDOM, "algorithm=sgd", "lr=0.01,0.1,1e308", "seed=0,1", results)
    [choice] = choose(found, "final_grad_norm")
    assert (choice.lr, choice.second) == (0.01, None)
    assert choice.note == (
        "at the edge of the grid: try smaller; "
        "not finished: lr=0.1 seed=1, lr=1e+308 seed=0, lr=1e+308 seed=1"
    )  # fmt: skip
    go(*SMALL, *RANDOM, "algorithm=sgd", "lr=0.1", "seed=1", results)
    [choice] = choose(found, "final_grad_norm")
    assert choice.lr == 0.1
    assert "edge" not in choice.note  # a larger one was tried


def test_where_nothing_came_to_its_end(results: str) -> None:
    assert stopped([*SMALL, "algorithm=sgd", "lr=[0.1,1e308]", results]) == 1
    [choice] = choose(cells("algorithm=sgd", "lr=[0.1,1e308]", results)[0], "final_grad_norm")
    assert (choice.lr, choice.value, choice.second) == (None, None, None)
    assert choice.note.startswith("no step size came to its end")


def test_a_metric_that_no_run_has(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    go(*SMALL, "lr=0.1", results)
    capsys.readouterr()
    # One of the runs is finished and says so before another is begun.
    assert sweep("lr=0.1,0.2", "select=final_test_loss", results) == 2
    assert (
        "select=final_test_loss: no such choice; did you mean final_train_loss? Valid: best_"
        in capsys.readouterr().err
    )
    with pytest.raises(UsageError, match="select=best_seconds: no such choice"):
        measured(cells("lr=0.1", results)[0][0], "best_seconds")
