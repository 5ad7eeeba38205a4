"""Sweeps from the command line, every cell a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_support import SMALL, contents, go, status, stored_config, timeless, where
from sweep_support import cells, linux, log_of, processes, sweep

from experiments import reproduce
from experiments.config.compose import CONF
from experiments.sweep.job import Job


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be started."""

    def start(job: Job, slot: int) -> None:
        raise AssertionError(f"started: {job.log}")

    monkeypatch.setattr(Job, "start", start)


def test_what_fails_is_listed_and_the_rest_is_done_and_not_again(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["algorithm=sgd", "lr=0.01,1e308", results]
    assert sweep(*command, "jobs=2") == 1
    said = capsys.readouterr().err
    [table] = [line for line in said.splitlines() if line.startswith("lr=1e+308\t")]
    name, how, error, log = table.split("\t")
    assert (name, how) == ("lr=1e+308", "exit status 1")
    assert error.startswith("round 5, all workers, trial 0 (lr=1e+308): train_loss is inf. A smaller step size")
    assert Path(log).read_text().rstrip().endswith(error)
    assert "error: 1 of 2 runs failed, see above; the others are done" in said
    line = r"^\d of 2  lr=0.01: lr 0.01: train_loss 0\.\d+, .* after 20 rounds and \d+ bits  \(\d+ s\)$"
    assert re.search(line, said, re.MULTILINE)
    found, _ = cells(*command)
    good, bad = (where(*SMALL, "algorithm=sgd", lr, results) for lr in ("lr=0.01", "lr=1e308"))
    assert (status(good)["status"], status(bad)["status"]) == ("finished", "failed")
    assert timeless(good) == timeless(go(*SMALL, "algorithm=sgd", "lr=0.01", f"results_dir={tmp_path / 'alone'}"))
    assert stored_config(good) == found[0].config  # its study included
    # Again, only what failed is started.
    started, before = [], contents(good)
    monkeypatch.setattr(Job, "start", lambda job, slot: started.append(job.log.stem) or fail(job))
    with pytest.raises(RecursionError):
        sweep(*command)
    assert started == [bad.name]
    assert contents(good) == before


def fail(job: Job) -> None:
    raise RecursionError


def test_a_finished_sweep_starts_nothing(results: str, no_process: None, capsys: pytest.CaptureFixture) -> None:
    paths = [go(*SMALL, f"seed={seed}", results) for seed in (0, 1)]
    before = [contents(path) for path in paths]
    assert sweep("seed=0,1", "lr=0.001,[0.001]", results) == 0
    said = capsys.readouterr().err
    assert "seed=1 lr=[0.001]: the same run as seed=1 lr=0.001, done once" in said
    assert "all 2 runs are finished; " in said
    assert [contents(path) for path in paths] == before


@pytest.mark.slow
def test_figures_runs_can_be_processes(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    tiny = ("figure=demo", "rounds=10", "eval_every=5", "cluster.workers=4", "lr=0.01", results)
    reproduce.main([*tiny])
    runs = sorted(path.parent for path in (tmp_path / "results").rglob("status.json"))
    assert {stored_config(path)["study"] for path in runs} == {"demo"}
    finished, missing = runs[:-1], runs[-1]
    before = timeless(missing)
    (missing / "status.json").write_text('{"status": "failed", "error": "by what?"}')
    [checkpoint] = (missing / "checkpoint").glob("[0-9]*")
    (missing / "checkpoint" / "latest").unlink()
    assert checkpoint.exists()
    kept = [contents(path) for path in finished]
    capsys.readouterr()
    reproduce.main([*tiny, "jobs=2"])
    said = capsys.readouterr().err
    assert "1 of 8 runs to do, 2 at once" in said
    assert timeless(missing) == before
    assert [contents(path) for path in finished] == kept
    assert [log.stem for log in (tmp_path / "results" / "sweeps" / "demo" / "jobs").glob("*.log")] == [missing.name]
    # How its runs were launched is no part of a figure's name.
    assert [path.name for path in (tmp_path / "results" / "figures").iterdir()] == [
        "demo-rounds=10-eval_every=5-cluster.workers=4-lr=0.01"
    ]


LONG = ("task=logreg/breast_cancer", "rounds=6000", "eval_every=10", "checkpoint_every=50", "task.batch_size=3")
FOUR = ("cluster.workers=4",)
TWO = (("algorithm=cd_adam",), ("algorithm=ef21",))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict]]:
    """The rows of LONG of TWO."""
    place = tmp_path_factory.mktemp("uninterrupted")
    return [timeless(go(*LONG, *which, *FOUR, f"results_dir={place}")) for which in TWO]


class Sweep:
    """A sweep of LONG over TWO in a process of its own."""

    def __init__(self, *overrides: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "experiments.run", "-m", *LONG, *FOUR, "algorithm=cd_adam,ef21", *overrides],
            cwd=CONF.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, *files: Path) -> None:
        deadline = time.monotonic() + 120
        while not all(file.exists() for file in files):
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def ended(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=120)
        return self.process.returncode, said


@pytest.mark.slow
@linux
@pytest.mark.parametrize(("how", "ranks"), [(signal.SIGINT, 2), (signal.SIGTERM, 1)])
def test_ctrl_c_ends_all_and_loses_nothing(
    how: signal.Signals, ranks: int, uninterrupted: list[list[dict]], results: str, tmp_path: Path
) -> None:
    paths = [where(*LONG, *which, *FOUR, results) for which in TWO]
    running = Sweep("jobs=2", f"ranks={ranks}", results)
    running.wait_for(*(path / "checkpoint" / "latest" for path in paths))
    assert len(list(processes(str(tmp_path)))) >= 1 + 2 * (1 if ranks == 1 else 1 + ranks)
    running.process.send_signal(how)
    code, said = running.ended()
    assert code == 130, said
    assert list(processes(str(tmp_path))) == []
    assert "2 runs are asked to write a checkpoint and end" in said
    assert "stopped; 2 of 2 runs are left" in said
    assert "Traceback" not in said
    for path, which, rows in zip(paths, TWO, uninterrupted, strict=True):
        assert status(path)["status"] == "interrupted"
        assert f"stopped after round {status(path)['round']}" in log_of(tmp_path / "results", path.name)
        go(*LONG, *which, *FOUR, results)
        assert timeless(path) == rows


@pytest.mark.slow
@linux
def test_a_second_ctrl_c_leaves_no_rank_behind(results: str, tmp_path: Path) -> None:
    paths = [where(*LONG, *which, *FOUR, results) for which in TWO]
    running = Sweep("jobs=2", "ranks=2", results)
    running.wait_for(*(path / "checkpoint" / "latest" for path in paths))
    for _ in range(2):
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    code, said = running.ended()
    assert code == 130, said
    deadline = time.monotonic() + 10
    while list(processes(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(processes(str(tmp_path))) == []


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
    assert "1 of 3 runs failed, see above; 3 are left" in said
    stopped, failed, never = (where(*SMALL, *long, f"lr={lr}", results) for lr in ("0.1", "1e308", "0.2"))
    assert status(failed)["status"] == "failed"
    assert not stopped.exists() or status(stopped)["status"] == "interrupted"
    assert not never.exists()


@pytest.mark.slow
def test_a_sweep_from_its_file(results: str, capsys: pytest.CaptureFixture) -> None:
    tiny = ("rounds=20", "eval_every=5", *FOUR, "jobs=2", results)
    assert sweep("sweep=step_sizes", "select=final_grad_norm", "algorithm=cd_adam,naive", *tiny) == 0
    out = capsys.readouterr().out
    assert out.startswith("task\talgorithm\t")
    assert len(re.findall(r"^python -m experiments.run .* lr=[0-9.]+$", out, re.MULTILINE)) == 2
