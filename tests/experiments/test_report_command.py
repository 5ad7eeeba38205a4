"""`python -m experiments.report` at the command line; what the page shows is tested in test_report_page.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_support import SMALL, go

from experiments.report import main

pytest.importorskip("plotly")

CANCER, DIGITS = "logreg/breast_cancer", "logreg/digits"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """One method on two tasks, another on one of them."""
    place = tmp_path_factory.mktemp("results")
    go(*SMALL, f"results_dir={place}")
    for algorithm in ("cd_adam", "ef21"):
        go(*SMALL, f"task={DIGITS}", f"algorithm={algorithm}", f"results_dir={place}")
    return place


def embedded(file: Path) -> dict:
    return json.loads(file.read_text().partition('id="data">')[2].partition("</script>")[0])


def test_tasks_and_algorithms_can_be_chosen(place, tmp_path, capsys):
    target = tmp_path / "sub" / "page.html"
    main([f"results_dir={place}", f"task={DIGITS}", "algorithm=ef21", f"out={target}"])
    assert capsys.readouterr().out == f"1 run: {target}\n"
    assert {(run["task"], run["method"]) for run in embedded(target)["runs"]} == {(DIGITS, "ef21")}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("task=logreg/digit", "did you mean logreg/digits?"),
        ("algorithm=ef12", "did you mean ef21?"),
        ("algoritm=ef21", "did you mean algorithm?"),
        ("report.html", "not of the form key=value"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(place, tmp_path, capsys, request_, message):
    with pytest.raises(SystemExit) as stop:
        main([f"results_dir={place}", f"out={tmp_path / 'page.html'}", request_])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_damaged_run_is_named_and_left_out(tmp_path, capsys):
    run = tmp_path / "task" / "method" / "id"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text('{"round": 0}\n')
    main([f"results_dir={tmp_path}"])
    said = capsys.readouterr()
    assert said.out == f"0 runs: {tmp_path / 'report.html'}\n"
    assert f"left out: {run}: not a whole run folder" in said.err


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (["results_dir={}/reslts"], "reslts: no such folder"),
        (["results_dir={}", "task=toy"], "task=toy: no run has it"),
    ],
)
def test_of_nothing_there_is_no_page(tmp_path, capsys, request_, message):
    with pytest.raises(SystemExit) as stop:
        main([text.format(tmp_path) for text in request_])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_device_is_not_written_over(place, capsys):
    with pytest.raises(SystemExit) as stop:
        main([f"results_dir={place}", "out=/dev/full"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "error: /dev/full: not a regular file, so nothing is written there\n"
