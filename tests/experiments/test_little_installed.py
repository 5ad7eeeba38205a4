"""Runs and figures where loggers, browsers, launchers, documentation and downloading tools are not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.config.compose import ROOT

# Found by Python at its start: these cannot be imported, as if they were not there.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

MISSING = {
    "plotly", "wandb", "wandb_workspaces", "tensorboard", "playwright", "submitit", "optuna", "ray", "sphinx",
    "furo", "myst_parser", "pyright", "pip_audit", "uv", "hypothesis", "pooch", "platformdirs",
}

class Path(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = name.partition(".")[0] in MISSING or name.startswith("hydra_plugins.hydra_")
        return None if missing else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Path
"""

SMALL = (
    "task=digits", "task.model.width=2", "task.precision=float32", "task.evaluation_rows=64", "task.rows=512",
    "cluster.workers=2", "device=cpu", "threads=1", "epochs=2", "eval_every=6",
)  # fmt: skip


@pytest.mark.slow
def test_a_figure(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    known = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "experiments.reproduce", "figure=digits", *SMALL]
    done = subprocess.run(words, cwd=tmp_path, env=known, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    [report] = tmp_path.glob("results/figures/*/report.md")
    assert "digits.png" in report.read_text()
    assert (report.parent / "claims.csv").is_file()
