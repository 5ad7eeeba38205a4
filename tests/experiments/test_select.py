"""A sweep's best step sizes, printed and written; how they are chosen is tested in plots/test_choose.py."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console
from run_support import SMALL, go, rows
from sweep_support import cells, sweep

from experiments import report, run
from experiments.sweep import selection
from experiments.sweep.folder import SweepFolder
from experiments.sweep.job import Job
from plots import plot
from plots.runs.choose import best
from plots.runs.find import find

LRS = (0.01, 0.3, 1e300)
COMMAND = ("algorithm=sgd,ef21", "lr=0.01,0.3,1e300", "study=mine")


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where two methods were run with every step size; nothing more is to be started."""
    for algorithm in ("sgd", "ef21"):
        for lr in LRS:
            go(*SMALL, f"algorithm={algorithm}", f"lr={lr}", f"results_dir={tmp_path}")

    def start(job: Job, slot: int) -> None:
        raise AssertionError(f"started: {job.log}")

    monkeypatch.setattr(Job, "start", start)
    return tmp_path


def test_it_is_printed_and_written(swept: Path, capsys: pytest.CaptureFixture) -> None:
    assert sweep(*COMMAND, "select=final_grad_norm", f"results_dir={swept}") == 0
    printed = capsys.readouterr().out.splitlines()
    choices = best(find(swept), "final_grad_norm")
    assert printed[0] == "best: the step size with the lowest gradient norm at the last evaluation"
    assert printed[1].split("\t")[:5] == ["task", "algorithm", "settings", "best lr", "value"]
    assert [line.split("\t")[3] for line in printed[2:4]] == [f"{choice.lr:g}" for choice in choices]
    assert all("loss ends above its start: lr=1e+300" in choice.note for choice in choices)
    with (swept / "sweeps" / "mine" / "selection.csv").open() as stream:
        written = list(csv.DictReader(stream))
    assert [(float(line["lr"]), float(line["value"])) for line in written] == [(c.lr, c.value) for c in choices]
    # The commands are those of runs that are there already.
    for command, choice in zip(printed[4:], choices, strict=True):
        words = command.split()
        assert words[:3] == ["python", "-m", "experiments.run"]
        assert f"algorithm={choice.algorithm}" in words
        run.main(words[3:])
        assert "already finished" in capsys.readouterr().err


def test_a_second_command_adds_to_its_study(swept: Path) -> None:
    place = f"results_dir={swept}"
    folder = SweepFolder(str(swept), "mine")
    first, second = (cells("algorithm=sgd", f"lr={lr}", "study=mine", place)[0] for lr in ("0.01", "0.3"))
    for found in (first, second, first):
        folder.freeze(found)
    assert (folder.path / "cells.txt").read_text().split() == [first[0].id, second[0].id]
    [choice] = selection.select(swept, "mine", "final_train_loss")
    assert {choice.lr, choice.second} == {0.01, 0.3}
    file = swept / "selection.csv"
    selection.report([choice], file, Console(file=io.StringIO()))
    assert len(file.read_text().splitlines()) == 2


def test_a_finished_run_is_told_by_its_best_step_size(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = go(*SMALL, "algorithm=sgd", "lr=[0.0003,0.1,1e300]", f"results_dir={tmp_path}")
    last = {row["lr"]: row for row in rows(path)}
    better = min((0.0003, 0.1), key=lambda lr: last[lr]["grad_norm"])
    [choice] = best(find(tmp_path))
    assert choice.lr == better


def test_a_metric_that_no_run_has(swept: Path, capsys: pytest.CaptureFixture) -> None:
    # One of the runs is finished and says so before another is begun.
    assert sweep("algorithm=sgd", "lr=0.01,0.2", "select=final_test_loss", f"results_dir={swept}") == 2
    assert "select=final_test_loss: no such choice; did you mean final_train_loss? Valid: " in capsys.readouterr().err


def test_step_sizes_in_the_unit_of_theory_are_drawn_and_reported(tmp_path: Path) -> None:
    place = f"results_dir={tmp_path}"
    go(*SMALL, "algorithm=ef21", "task.step_unit=theory", "lr=[1,2]", place)
    plot.main([place, f"out={tmp_path / 'it.png'}"])
    plot.main([place, "lr=2", f"out={tmp_path / 'two.png'}"])
    report.main([place])
    assert {"it.png", "two.png", "report.html"} <= {file.name for file in tmp_path.iterdir()}
