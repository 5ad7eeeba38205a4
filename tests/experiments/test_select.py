"""Choosing step sizes, against what the rows themselves say."""

import csv
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from run_support import SMALL, bring, configuration, go, halted, rows
from sweep_support import sweep

from common.errors import UsageError
from experiments import run
from experiments.config.identity import folder
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.orchestration.study import cells
from plots.runs.choose import Choice, best
from plots.runs.find import find

RANDOM = ("task.batch_size=3", "cluster.workers=4")
LRS = (0.01, 0.3, 1e3)


def of(path: Path, lr: float, metric: str) -> list[float]:
    """A metric of a run's every row with one step size."""
    return [row[metric] for row in rows(path) if math.isclose(row["lr"], lr)]


def cell(results: str, algorithm: str, lr: float, seed: int) -> RunConfig:
    """A run of `swept`."""
    return replace(configuration(*SMALL, *RANDOM, f"algorithm={algorithm}", results), lr=(lr,), seed=seed)


def expected(results: str, algorithm: str, rule: str) -> dict[float, float]:
    """What each step size of `swept` came to, by its definition."""
    came_to = {}
    kind, metric = rule.split("_", 1)
    best = max if metric.endswith("accuracy") else min
    for lr in LRS:
        values = []
        for seed in (0, 1):
            curve = of(folder(cell(results, algorithm, lr, seed)), lr, metric)
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
                bring(cell(results, algorithm, lr, seed))
    return results


pytestmark = pytest.mark.usefixtures("no_process")

COMMAND = (*RANDOM, "algorithm=cd_adam,ef21", "lr=0.01,0.3,1e3", "seed=0,1")


def chosen(results: str, rule: str | None) -> list[Choice]:
    """The best step sizes of what lies there."""
    return sorted(best(find(Path(results.partition("=")[2])), rule), key=lambda choice: choice.algorithm)


@pytest.mark.parametrize("rule", ["final_grad_norm", "best_train_accuracy"])
def test_the_best_by_the_rows(rule: str, swept: str) -> None:
    choices = chosen(swept, rule)
    assert [choice.algorithm for choice in choices] == ["cd_adam", "ef21"]
    for choice in choices:
        came_to = expected(swept, choice.algorithm, rule)
        above = {float(text) for text in re.findall(r"lr=([^\s,;]+)", choice.note)}
        order = sorted({*LRS} - above, key=lambda lr: came_to[lr], reverse=rule.endswith("accuracy"))
        assert (choice.lr, choice.second) == (*order, None)[:2]
        assert choice.value == pytest.approx(came_to[order[0]], rel=1e-12)
        assert (choice.task, choice.seeds) == ("logreg/breast_cancer", (0, 1))
        edges = {0.01: "smaller", 1e3: "larger"}
        assert (f"at the edge of the grid: try {edges.get(order[0])}" in choice.note) == (order[0] in edges)


@pytest.mark.slow
def test_it_is_printed_and_written(swept: str, capsys: pytest.CaptureFixture) -> None:
    assert sweep(*COMMAND, "select=final_grad_norm", swept) == 0
    rule, header, *printed = capsys.readouterr().out.splitlines()
    choices = chosen(swept, "final_grad_norm")
    [file] = Path(swept.partition("=")[2]).glob("sweeps/*/selection.csv")
    with file.open() as stream:
        written = list(csv.DictReader(stream))
    assert [float(line["lr"]) for line in written] == [choice.lr for choice in choices]
    assert [float(line["value"]) for line in written] == [choice.value for choice in choices]
    assert rule.startswith("best: ")
    assert "gradient norm" in rule
    assert header.split("\t")[:5] == ["task", "algorithm", "settings", "best lr", "value"]
    assert [line.split("\t")[3] for line in printed[:2]] == [f"{choice.lr:g}" for choice in choices]
    # The commands are those of runs that are there already.
    for command, choice in zip(printed[2:], choices, strict=True):
        words = command.split()
        assert words[:3] == ["python", "-m", "experiments.run"]
        assert f"algorithm={choice.algorithm}" in words
        run.main(words[3:])
        assert "already finished" in capsys.readouterr().err


def test_a_finished_run_is_told_by_its_best_step_size(results: str) -> None:
    line = [*SMALL, "algorithm=sgd", "lr=[0.0003,0.1]", results]
    path = go(*line)
    [cell] = cells([line], [load_run(line)], "mine")
    lr = min((0.0003, 0.1), key=lambda lr: of(path, lr, "train_loss")[-1])
    said = cell.outcome("final_train_loss")
    assert said.startswith(f"lr {lr:g}: train_loss {of(path, lr, 'train_loss')[-1]:.4g}, ")
    assert said.endswith(" bits, best of 2 step sizes")


@pytest.mark.slow
def test_a_metric_that_no_run_has(results: str, capsys: pytest.CaptureFixture) -> None:
    go(*SMALL, "lr=0.1", results)
    capsys.readouterr()
    # One of the runs is finished and says so before another is begun.
    assert sweep("lr=0.1,0.2", "select=final_test_loss", results) == 2
    assert "select=final_test_loss: no such choice; did you mean final_train_loss?" in capsys.readouterr().err
    assert not Path(results.partition("=")[2], "sweeps").exists()
    with pytest.raises(UsageError, match="select=best_seconds: no such choice"):
        chosen(results, "best_seconds")


def test_where_nothing_came_to_its_end(results: str) -> None:
    assert halted([*SMALL, "algorithm=sgd", "lr=[0.1,1e308]", results]) == 1
    [choice] = chosen(results, "final_grad_norm")
    assert (choice.lr, choice.value, choice.second) == (None, None, None)
    assert choice.note.startswith("no step size can win")
