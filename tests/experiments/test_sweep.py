"""Sweeps from the command line, by this machine's launcher and Hydra's others, and what a kill leaves."""

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_support import SMALL, contents, exit_code, go, linux, processes, run_folder, small, status, sweep, timeless
from waiting import until

from common.errors import Interrupted, UsageError
from experiments import run
from experiments.config import identity
from experiments.config.compose import CONF, ROOT
from experiments.config.run import read_run
from experiments.config.schema import LaunchConfig, RunConfig
from experiments.orchestration import plan
from experiments.orchestration.processes import Job
from experiments.orchestration.study import Cell, StudyFolder
from experiments.orchestration.sweep import train
from experiments.training.build import check_direction


def test_what_fails_is_listed_and_the_rest_is_done_and_not_again(results, tmp_path, capsys, monkeypatch):
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
    good, bad = (run_folder(*SMALL, "algorithm=sgd", lr, results) for lr in ("lr=0.01", "lr=1e308"))
    assert (status(good)["status"], status(bad)["status"]) == ("finished", "failed")
    assert timeless(good) == timeless(go(*SMALL, "algorithm=sgd", "lr=0.01", f"results_dir={tmp_path / 'alone'}"))
    for path in (good, bad):
        kept = read_run(yaml.safe_load(StudyFolder(str(tmp_path / "results"), "mine").job(path.name).read_text()), ())
        assert identity.folder(kept) == path
        assert kept.study == "mine"
    started, before = [], contents(good)
    monkeypatch.setattr(Job, "start", lambda job, slot: started.append(job.log.stem) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sweep(*command)
    assert started == [bad.name]
    assert contents(good) == before


def test_a_single_run_has_no_study(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, str]] = []

    def stopped_at_once(cells: list[Cell], launch: LaunchConfig, folder: StudyFolder, display: object) -> Any:
        seen.append((cells[0].run.study, folder.path.name))
        return True, []

    monkeypatch.setattr("experiments.orchestration.sweep._run", stopped_at_once)
    with pytest.raises(Interrupted):
        train(small(results), LaunchConfig(job_timeout=60))
    assert seen == [(None, run_folder(*SMALL, results).name)]


@pytest.mark.slow
def test_an_error_in_saying_what_a_run_came_to_stops_no_other(results: str, capsys: pytest.CaptureFixture) -> None:
    batch = ["algorithm=sgd", "lr=[0.01,0.1]", results]
    assert sweep(*batch, "seed=0,1", "jobs=1", "select=final_test_loss") == 2
    said = capsys.readouterr().err
    assert said.count("finished, but its result could not be read: UsageError: ") == 2
    for seed in (0, 1):
        assert status(run_folder(*SMALL, *batch, f"seed={seed}"))["status"] == "finished"


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
def test_the_sweeps_that_come_with_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # One value of the longest axis, to compose fewer of them.
    found: list[RunConfig] = []
    monkeypatch.setattr(plan, "show", lambda runs, *others: found.extend(runs))
    run.main([f"sweep={name}", "seed=0", "algorithm=ef21,cd_adam", "rounds=20", "dry_run=true"])
    assert len({identity.run_id(run) for run in found}) == len(found) >= 2
    assert {run.algorithm.name for run in found} == {"ef21", "cd_adam"}  # the command line wins
    assert {run.rounds for run in found} == {20}
    assert {run.task.name for run in found} <= {"logreg/breast_cancer", "logreg/digits"}  # no download
    assert f"python -m experiments.run sweep={name}" in (CONF / "sweep" / f"{name}.yaml").read_text()


REFUSED = {
    "task=digits rounds=2 epochs=3 seed=0,1": "epochs=3: rounds=2 is set too and wins; add rounds=null",
    "seed=0,1 jobs=1,2": "jobs: must be the same for all runs of a sweep",
    "cluster.workers=4,3 ranks=4": "cluster.workers=3: too few for 4 ranks",
    "seed=0,1 select=grad_norm": "select=grad_norm: must be final_<metric> or best_<metric>",
    "seed=0,1 select=final_gard_norm": "select=final_gard_norm: no such choice; did you mean final_grad_norm",
    "seed=range(3,0)": "no run in this sweep: range(...) is empty",
    "lr=tag(log,interval(0.1,1)) hydra/sweeper=optuna dry_run=true": "dry_run=true: hydra/sweeper=optuna chooses",
    "lr=tag(log,interval(0.1,1)) hydra/sweeper=optuna select=best_train_accuracy": "direction=minimize: a",
}


@pytest.mark.parametrize("wrong", ["seed=0,x", *(pytest.param(wrong, marks=pytest.mark.slow) for wrong in REFUSED)])
def test_what_is_wrong_in_any_cell_is_refused_before_the_first(wrong, tmp_path, no_process, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code(["-m", *SMALL, *wrong.split()]) == 2
    assert REFUSED.get(wrong, "seed=x: must be a valid integer") in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        (None, "maximize", "minimize"),
        ("best_test_loss", "maximize", "minimize"),
        ("final_test_accuracy", "minimize", "maximize"),
    ],
)
def test_a_search_goes_the_way_of_its_metric(rule, wrong, right):
    check_direction(small(), rule, {"direction": right})
    check_direction(small(), rule, {})  # a grid
    with pytest.raises(UsageError, match=f"direction={wrong}: a .* is better; set it to {right}"):
        check_direction(small(), rule, {"direction": wrong})


def test_a_plan_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run.main(["-m", *SMALL, "seed=0,1,0", "jobs=2", "ranks=2", "dry_run=true", f"results_dir={tmp_path / 'results'}"])
    assert "2 runs, 2 of them to do" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


LONG = (*SMALL, "rounds=2000", "eval_every=10", "checkpoint_every=50", "task.batch_size=3", "cluster.workers=4")


@pytest.mark.slow
@linux
@pytest.mark.parametrize(("how", "ranks", "times"), [("INT", 2, 1), ("TERM", 1, 1), ("INT", 2, 2)])
def test_ctrl_c_ends_all_with_a_checkpoint(how, ranks, times, results, tmp_path):
    paths = [run_folder(*LONG, f"algorithm={name}", results) for name in ("cd_adam", "ef21")]
    words = ["-m", *LONG, "algorithm=cd_adam,ef21", "jobs=2", f"ranks={ranks}", results]
    environment = {**os.environ, "OMP_NUM_THREADS": "1,1", "MARK": str(tmp_path)}  # by which we find its processes
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
    for path in paths:
        assert status(path)["status"] == "interrupted"
        [log] = (tmp_path / "results").glob(f"sweeps/*/jobs/{path.name}.log")
        assert f"stopped after round {status(path)['round']}" in log.read_text()


@pytest.mark.slow
def test_fail_fast_stops_the_others(results: str, capsys: pytest.CaptureFixture) -> None:
    long = [*LONG, "rounds=1000000", "algorithm=sgd"]
    assert sweep(*long, "lr=0.1,1e308,0.2", "jobs=2", "fail_fast=true", results) == 1
    said = capsys.readouterr().err
    assert "1 of 3 runs failed, 3 are left" in said
    stopped, failed, never = (run_folder(*SMALL, *long, f"lr={lr}", results) for lr in ("0.1", "1e308", "0.2"))
    assert status(failed)["status"] == "failed"
    # It may have been stopped before it began.
    assert not (stopped / "status.json").exists() or status(stopped)["status"] == "interrupted"
    assert not never.exists()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "joblib", "submitit_local", "ray"])
def test_runs_are_the_same_by_any_launcher(launcher: str, results: str, tmp_path: Path) -> None:
    if launcher != "basic":
        pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    # Its `__main__` is what launchers hand to theirs.
    line = [sys.executable, "-m", "experiments.run", "-m", *SMALL, "algorithm=sgd", results]
    line += ["lr=0.01,1e308", f"hydra/launcher={launcher}"]
    known = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=tmp_path, env=known, capture_output=True, text=True, timeout=400)
    assert done.returncode == 1, done.stderr
    last = [line for line in done.stderr.splitlines() if line.startswith("error: ")][-1]
    assert re.search(r"round 5, all workers, trial 0 \(lr=1e\+308\): train_loss is inf", last)
    good, bad = (run_folder(*SMALL, "algorithm=sgd", lr, results) for lr in ("lr=0.01", "lr=1e308"))
    assert (status(good)["status"], status(bad)["status"]) == ("finished", "failed")
    assert timeless(good) == timeless(go(*SMALL, "algorithm=sgd", "lr=0.01", f"results_dir={tmp_path / 'alone'}"))


@pytest.mark.slow
def test_slurms_tasks_are_the_ranks_of_a_cell(results: str, tmp_path: Path) -> None:
    """As submitit runs a cell of several tasks: each calls the launcher's function."""
    words = ["-m", *SMALL, "hydra/launcher=basic", "algorithm=cd_adam", "cluster.workers=2", "seed=0,1", results]
    step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "0"}
    step |= {"SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "2"}
    tasks = [
        subprocess.Popen(
            [sys.executable, "-m", "experiments.run", *words],
            env={**os.environ, **step, "SLURM_PROCID": rank, "SLURM_LOCALID": rank, "OMP_NUM_THREADS": "1"},
        )
        for rank in "01"
    ]
    assert [task.wait(100) for task in tasks] == [0, 0]
    for seed in "01":
        cell = [*SMALL, "algorithm=cd_adam", "cluster.workers=2", f"seed={seed}"]
        together = run_folder(*cell, results)
        assert json.loads((together / "environment.json").read_text())["ranks"] == 2
        assert timeless(together) == timeless(go(*cell, f"results_dir={tmp_path / 'alone'}"))


@pytest.mark.slow
def test_optuna_searches_a_step_size(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    search = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=4", "hydra.sweeper.n_jobs=2"]
    space = ["algorithm=sgd", "lr=tag(log,interval(0.001,1))", "study=search", "select=final_grad_norm"]
    assert sweep(*search, *space, "hydra.sweeper.sampler.seed=1", results) == 0
    last = [timeless(path.parent)[-1] for path in (tmp_path / "results" / "logreg").rglob("metrics.jsonl")]
    assert len(last) == 4
    best = min(last, key=lambda row: row["grad_norm"])
    found = yaml.safe_load((tmp_path / "results" / "sweeps" / "optimization_results.yaml").read_text())
    assert math.isclose(found["best_params"]["lr"], best["lr"])
    assert math.isclose(found["best_value"], best["grad_norm"])
    assert f"lr={best['lr']!r}\n" in capsys.readouterr().out  # our table agrees
    assert len((tmp_path / "results" / "sweeps" / "search" / "cells.txt").read_text().split()) == 4


TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "experiments.run")


@linux
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("experiments.run", "-m", "jobs=2"), ("experiments.run", "-m", "ranks=2"), TORCHRUN],
    ids=["a sweep", "a sweep of torchruns", "a torchrun"],
)
def test_nothing_outlives_who_started_it(command: tuple[str, ...], results: str, tmp_path: Path) -> None:
    seeds = () if command is TORCHRUN else ("seed=0,1",)
    words, mark = [sys.executable, "-m", *command, *LONG, *seeds, results], f"STARTED_BY_{tmp_path.name}"
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", "MARK": mark})
    try:
        until(lambda: process.poll() is not None or [*tmp_path.rglob("checkpoint/*/shared.pt")])
        assert process.poll() is None
        others = set(processes(mark)) - {process.pid}
        assert others
    finally:
        process.kill()
        process.wait()
    until(lambda: not set(processes(mark)), 10)
