"""The command line and torchrun itself: a run with ranks of its own, Ctrl-C and a rank that is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster_support import LAUNCHERS, assert_same
from run_support import SMALL, go, run_command, status, where

from experiments.config.compose import CONF

ROOT = CONF.parent
LONG = (
    *("task=logreg/breast_cancer", "rounds=3000", "eval_every=10", "checkpoint_every=50", "task.batch_size=3"),
    *("cluster.workers=4", "threads=1"),
)

ALONE = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
ALONE |= {"OMP_NUM_THREADS": "1", "COLUMNS": "80"}
"""The environment of a command that no launcher started."""


@contextmanager
def torchrun(ranks: int, *arguments: str) -> Iterator[subprocess.Popen]:
    """The command line, as a process group of its own, that is killed if it is still there at the end."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"),
            *("-m", "experiments.run", *arguments),
        ],
        cwd=ROOT,
        env=ALONE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()  # which ends its ranks, too
            process.communicate(timeout=200)


def _spoken(said: str) -> list[str]:
    """What was not said by torchrun."""
    return [line for line in said.splitlines() if "torch/distributed" not in line]


@pytest.mark.slow
def test_a_run_with_ranks_of_its_own(results: str, tmp_path: Path) -> None:
    run = (*SMALL, "threads=1", "cluster.workers=4", "lr=[0.001,0.003]")
    run_command([*run, results, "ranks=2"])
    path = where(*run, results)
    assert_same(path, go(*run, f"results_dir={tmp_path / 'alone'}"))
    assert json.loads((path / "environment.json").read_text())["ranks"] == 2
    # One rank speaks: a line per tenth of all rounds, one when the run begins and three when it ends.
    [log] = (tmp_path / "results").glob(f"sweeps/*/jobs/{path.name}.log")
    _, *spoken = _spoken(log.read_text())
    assert spoken[-1] == f"results: {path}"
    assert len(spoken) <= 1 + 10 + 3, spoken


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of LONG, uninterrupted."""
    return go(*LONG, f"results_dir={tmp_path_factory.mktemp('long')}")


def _until_there(file: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_loses_nothing(how: signal.Signals, long_run: Path, results: str) -> None:
    path = where(*LONG, results)
    with torchrun(2, *LONG, results) as process:
        _until_there(path / "checkpoint", process)
        os.killpg(process.pid, how)
        said, _ = process.communicate(timeout=200)
    assert process.returncode != 0
    assert status(path)["status"] == "interrupted"
    round = status(path)["round"]
    assert f"stopped after round {round}; the same command goes on: {path}" in _spoken(said)
    assert "lost contact" not in said
    assert {str(round)} <= {entry.name for entry in (path / "checkpoint").iterdir()}
    assert_same(go(*LONG, results), long_run)
