"""Sweeps from the command line, every cell a process of its own."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from run_support import SMALL, contents, go, status, stopped, timeless, where
from sweep_support import linux, planned, processes, sweep

from experiments import run
from experiments.config import identity
from experiments.config.compose import CONF
from experiments.config.run import read
from experiments.orchestration.processes import Job
from experiments.orchestration.study import StudyFolder


def test_what_fails_is_listed_and_the_rest_is_done_and_not_again(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["algorithm=sgd", "lr=0.01,1e308", results, "study=mine"]
    assert sweep(*command, "jobs=2") == 1
    out, said = capsys.readouterr()
    [table] = [line for line in said.splitlines() if line.startswith("lr=1e+308\t")]
    name, how, error, log = table.split("\t")
    assert (name, how) == ("lr=1e+308", "exit status 1")
    assert error.startswith("round 5, all workers, trial 0 (lr=1e+308): train_loss is inf. A smaller step size")
    assert Path(log).read_text().rstrip().endswith(error)
    assert "error: 1 of 2 runs failed, see above; the others are done" in said
    line = r"^\d of 2  lr=0.01: lr 0.01: train_loss 0\.\d+, .* after 20 rounds and \d+ bits  \(\d+ s\)$"
    assert re.search(line, said, re.MULTILINE)
    assert "not finished: lr=1e+308 seed=0" in out
    good, bad = (where(*SMALL, "algorithm=sgd", lr, results) for lr in ("lr=0.01", "lr=1e308"))
    assert (status(good)["status"], status(bad)["status"]) == ("finished", "failed")
    assert timeless(good) == timeless(go(*SMALL, "algorithm=sgd", "lr=0.01", f"results_dir={tmp_path / 'alone'}"))
    for path in (good, bad):
        thawed = read(yaml.safe_load(StudyFolder(str(tmp_path / "results"), "mine").job(path.name).read_text()), ())
        assert identity.folder(thawed) == path
        assert thawed.study == "mine"
    # Again, only what failed is started.
    started, before = [], contents(good)
    monkeypatch.setattr(Job, "start", lambda job, slot: started.append(job.log.stem) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sweep(*command)
    assert started == [bad.name]
    assert contents(good) == before


@pytest.mark.slow
def test_a_finished_sweep_starts_nothing(results: str, no_process: None, capsys: pytest.CaptureFixture) -> None:
    paths = [go(*SMALL, f"seed={seed}", results) for seed in (0, 1)]
    before = [contents(path) for path in paths]
    assert sweep("seed=0,1", "lr=0.001,[0.001]", results) == 0
    said = capsys.readouterr().err
    assert "seed=1 lr=[0.001]: the same run as seed=1 lr=0.001, done once" in said
    assert "all 2 runs are finished; " in said
    assert [contents(path) for path in paths] == before


@pytest.mark.slow
def test_a_study_accumulates(results: str, no_process: None, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    lrs = (0.01, 0.1, 0.3)
    paths = {lr: go(*SMALL, "algorithm=sgd", f"lr={lr}", results) for lr in lrs}
    for grid in ("lr=0.01,0.1", "lr=0.3,0.1"):
        assert sweep("algorithm=sgd", grid, "study=mine", "select=final_train_loss", results) == 0
    folder = tmp_path / "results" / "sweeps" / "mine"
    assert (folder / "cells.txt").read_text().split() == [paths[lr].name for lr in lrs]
    loss = {lr: timeless(path)[-1]["train_loss"] for lr, path in paths.items()}
    first, second = sorted(lrs, key=loss.__getitem__)[:2]
    with (folder / "selection.csv").open() as stream:
        [chosen] = csv.DictReader(stream)
    assert (float(chosen["lr"]), float(chosen["second"])) == (first, second)
    assert float(chosen["value"]) == loss[first]
    assert f"lr={first!r}\n" in capsys.readouterr().out  # the command that runs the best


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "sweep").glob("*.yaml")))
def test_the_sweeps_that_come_with_it(name: str) -> None:
    # One value of the longest axis, to compose fewer of them.
    found = planned(f"sweep={name}", "seed=0", "algorithm=ef21,cd_adam", "rounds=20")
    assert len({identity.of(run) for run in found}) == len(found) >= 2
    assert {run.algorithm.name for run in found} == {"ef21", "cd_adam"}  # the command line wins
    assert {run.rounds for run in found} == {20}
    assert {run.task.name for run in found} <= {"logreg/breast_cancer", "logreg/digits"}  # no download
    assert f"python -m experiments.run sweep={name}" in (CONF / "sweep" / f"{name}.yaml").read_text()


REFUSED = {
    "seed=0,x": "seed=x: must be a valid integer",
    "seed=0,1 jobs=1,2": "jobs: must be the same for all runs of a sweep",
    "cluster.workers=4,3 ranks=4": "cluster.workers=3: too few for 4 ranks",
    "seed=0,1 select=grad_norm": "select=grad_norm: final_<metric> or best_<metric>",
    "lr=tag(log,interval(0.1,1)) hydra/sweeper=optuna dry_run=true": "dry_run=true: what hydra/sweeper=optuna tries ",
    "hydra/launcher=joblb": "hydra/launcher=joblb: no such choice; did you mean ",
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(*case, id=case[0], marks=pytest.mark.slow if number else ())
        for number, case in enumerate(REFUSED.items())
    ],
)
def test_what_is_wrong_in_any_cell_is_refused_before_the_first(
    wrong: str, message: str, tmp_path: Path, no_process: None, capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert stopped(["-m", *SMALL, *wrong.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [pytest.param(["-m", "seed=0,1,0"], marks=pytest.mark.slow), ["jobs=2", "ranks=2"]]
)
def test_a_plan_leaves_nothing(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run.main([*SMALL, *command, "task.batch_size=3", "dry_run=true", f"results_dir={tmp_path / 'results'}"])
    count = 2 if "-m" in command else 1
    assert f"{count} runs, {count} of them to do" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


LONG = ("task=logreg/breast_cancer", "rounds=2000", "eval_every=10", "checkpoint_every=50", "task.batch_size=3")
FOUR = ("cluster.workers=4",)
TWO = (("algorithm=cd_adam",), ("algorithm=ef21",))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict]]:
    """The rows of LONG of TWO."""
    place = tmp_path_factory.mktemp("uninterrupted")
    return [timeless(go(*LONG, *which, *FOUR, f"results_dir={place}")) for which in TWO]


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is bound to come."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@linux
@pytest.mark.parametrize(("how", "ranks", "times"), [("INT", 2, 1), ("TERM", 1, 1), ("INT", 2, 2)])
def test_ctrl_c_ends_all_and_loses_nothing(
    how: str, ranks: int, times: int, uninterrupted: list[list[dict]], results: str, tmp_path: Path
) -> None:
    paths = [where(*LONG, *which, *FOUR, results) for which in TWO]
    words = ["-m", *LONG, *FOUR, "algorithm=cd_adam,ef21", "jobs=2", f"ranks={ranks}", results]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MARK": str(tmp_path)}  # by which we find its processes
    command = [sys.executable, "-m", "experiments.run", *words]
    running = subprocess.Popen(command, cwd=CONF.parent, env=environment, stderr=subprocess.PIPE, text=True)
    until(lambda: running.poll() or all([*path.glob("checkpoint/*/shared.pt")] for path in paths))
    assert len(list(processes(str(tmp_path)))) >= 1 + 2 * (1 if ranks == 1 else 1 + ranks)
    for _ in range(times):
        running.send_signal(getattr(signal, f"SIG{how}"))
        time.sleep(0.01)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    until(lambda: list(processes(str(tmp_path))) == [])
    if times > 1:
        return
    assert "2 runs are asked to write a checkpoint and end" in said
    assert "stopped; 2 of 2 runs are left" in said
    assert "Traceback" not in said
    for path, which, rows in zip(paths, TWO, uninterrupted, strict=True):
        assert status(path)["status"] == "interrupted"
        [log] = (tmp_path / "results").glob(f"sweeps/*/jobs/{path.name}.log")
        assert f"stopped after round {status(path)['round']}" in log.read_text()
        go(*LONG, *which, *FOUR, results)
        assert timeless(path) == rows


@pytest.mark.slow
def test_what_takes_too_long_is_stopped_and_goes_on(results: str, capsys: pytest.CaptureFixture) -> None:
    path = where(*LONG, *TWO[0], *FOUR, "rounds=1000000", results)
    command = ["algorithm=cd_adam", *FOUR, "rounds=1000000", results, "job_timeout=20"]
    for _ in range(2):
        before = status(path)["round"] if path.exists() else 0
        assert sweep(*LONG, *command) == 1
        assert "timed out after" in capsys.readouterr().err
        assert status(path)["status"] == "interrupted"
        assert status(path)["round"] > before


@pytest.mark.slow
def test_fail_fast_stops_the_others(results: str, capsys: pytest.CaptureFixture) -> None:
    long = [*LONG, "rounds=1000000", *FOUR, "algorithm=sgd"]
    assert sweep(*long, "lr=0.1,1e308,0.2", "jobs=2", "fail_fast=true", results) == 1
    said = capsys.readouterr().err
    assert "1 of 3 runs failed, 3 are left" in said
    stopped, failed, never = (where(*SMALL, *long, f"lr={lr}", results) for lr in ("0.1", "1e308", "0.2"))
    assert status(failed)["status"] == "failed"
    assert not stopped.exists() or status(stopped)["status"] == "interrupted"
    assert not never.exists()
