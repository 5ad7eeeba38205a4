"""Hydra's other launchers and sweepers, each where its package is installed."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_support import SMALL, go, status, timeless, where
from sweep_support import shell, sweep

TWO = ("lr=0.01", "lr=1e308")
GRID = ("algorithm=sgd", "lr=0.01,1e308")


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "joblib", "submitit_local", "ray"])
def test_runs_are_the_same_by_any_launcher(launcher: str, results: str, tmp_path: Path) -> None:
    if launcher != "basic":
        pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    line = ("-m", "experiments.run", "-m", *SMALL, results)  # whose `__main__` is what launchers hand to theirs
    done = shell(tmp_path, *line, *GRID, f"hydra/launcher={launcher}")
    assert done.returncode == 1, done.stderr
    last = [line for line in done.stderr.splitlines() if line.startswith("error: ")][-1]
    assert re.search(r"round 5, all workers, trial 0 \(lr=1e\+308\): train_loss is inf", last)
    good, bad = (where(*SMALL, "algorithm=sgd", lr, results) for lr in TWO)
    assert (status(good)["status"], status(bad)["status"]) == ("finished", "failed")
    # This machine's own launcher finds it finished.
    again = shell(tmp_path, *line, "algorithm=sgd", "lr=0.01")
    assert again.returncode == 0, again.stderr
    assert "all 1 runs are finished" in again.stderr
    assert timeless(good) == timeless(go(*SMALL, "algorithm=sgd", "lr=0.01", f"results_dir={tmp_path / 'alone'}"))


@pytest.mark.slow
def test_what_submitit_would_hand_to_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch script that the launcher's settings come to, without SLURM."""
    submitit = pytest.importorskip("submitit")
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    from submitit.slurm import slurm

    scripts: list[str] = []

    def submitted(self: Any, fn: Any, *columns: Any) -> list[Any]:
        executor = self._executor
        parameters = {**executor.parameters, "map_count": len(columns[0])}
        scripts.append(slurm._make_sbatch_string(command="the command", folder=tmp_path, **parameters))
        raise KeyboardInterrupt

    monkeypatch.setattr(slurm.SlurmExecutor, "affinity", classmethod(lambda cls: 1))
    monkeypatch.setattr(submitit.AutoExecutor, "map_array", submitted)
    settings = ["timeout_min=90", "partition=gpu", "gpus_per_node=1", "cpus_per_task=4", "array_parallelism=2"]
    words = [f"hydra.launcher.{setting}" for setting in settings]
    assert sweep("seed=0,1,2", "hydra/launcher=submitit_slurm", *words, f"results_dir={tmp_path / 'results'}") == 130
    [script] = scripts
    for line in ("--time=90", "--partition=gpu", "--gpus-per-node=1", "--cpus-per-task=4", "--array=0-2%2"):
        assert f"#SBATCH {line}\n" in script
    assert "#SBATCH --signal=USR2@" in script


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
