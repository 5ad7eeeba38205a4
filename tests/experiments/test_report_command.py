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
    ("requests", "code", "message"),
    [
        (["task=logreg/digit"], 2, "did you mean logreg/digits?"),
        (["algorithm=ef12"], 2, "did you mean ef21?"),
        (["algoritm=ef21"], 2, "did you mean algorithm?"),
        (["report.html"], 2, "not of the form key=value"),
        (["results_dir=nowhere"], 2, "nowhere: no such folder"),
        (["results_dir=."], 2, "task=logreg/digits: no run has it"),
        (["out=/dev/full"], 1, "/dev/full: not a regular file, so nothing is written there"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_cannot_be_shown_is_refused(place, tmp_path, monkeypatch, capsys, requests, code, message):
    monkeypatch.chdir(tmp_path)
    known = {"results_dir": place, "out": tmp_path / "page.html", "task": DIGITS}
    given = [f"{name}={value}" for name, value in known.items() if not requests[0].startswith(f"{name}=")]
    with pytest.raises(SystemExit) as stop:
        main([*given, *requests])
    assert stop.value.code == code
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
