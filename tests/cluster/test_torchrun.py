"""The command line and torchrun itself: ranks of its own, Ctrl-C, ranks that are killed, and one rank alone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from cluster_support import LAUNCHERS, assert_same, outputs, spawn
from run_support import SMALL, go, run_folder, status, timeless
from waiting import until

from experiments import reproduce
from experiments.config.compose import ROOT
from experiments.run import main as run_command
from experiments.run_store.checkpoint import rounds
from plots.runs.find import find

pytestmark = pytest.mark.slow

LONG = (
    *("task=logreg/breast_cancer", "rounds=3000", "eval_every=10", "checkpoint_every=50", "task.batch_size=3"),
    *("cluster.workers=4", "threads=1"),
)
DIGITS = ("task=digits", "task.model.width=4", "task.precision=float32", "rounds=12", "eval_every=4", "threads=1")
FIGURE = [
    "figure=demo",
    'figure.grid=[["task=logreg/breast_cancer cluster.workers=4 rounds=20 eval_every=10"],["algorithm=cd_adam"]]',
    "figure.claims=[]",
    "seeds=[0,1]",
]

ALONE = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
ALONE |= {"OMP_NUM_THREADS": "1", "COLUMNS": "80"}
ALONE["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
"""The environment of a command that no launcher started."""

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@contextmanager
def torchrun(ranks: int, *arguments: str, restarts: int = 0) -> Iterator[subprocess.Popen]:
    """The command line, as a process group of its own, that is killed if it is still there at the end."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"),
            *(f"--nproc-per-node={ranks}", f"--max-restarts={restarts}", "-m", "experiments.run", *arguments),
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


def test_a_run_with_ranks_of_its_own(results: str, tmp_path: Path) -> None:
    run = (*SMALL, "threads=1", "cluster.workers=4", "lr=[0.001,0.003]")
    run_command([*run, results, "ranks=2"])
    path = run_folder(*run, results)
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


def _until(path: Path, least: int, process: subprocess.Popen) -> None:
    """A checkpoint of that round or a later one is there."""
    until(lambda: process.poll() is not None or max(rounds(path / "checkpoint"), default=0) >= least, 60)
    assert process.poll() is None, process.stdout.read()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_loses_nothing(how: signal.Signals, long_run: Path, results: str) -> None:
    path = run_folder(*LONG, results)
    with torchrun(2, *LONG, results) as process:
        _until(path, 50, process)
        os.killpg(process.pid, how)
        said, _ = process.communicate(timeout=200)
    assert process.returncode != 0
    assert status(path)["status"] == "interrupted"
    round = status(path)["round"]
    assert f"stopped after round {round}; the same command goes on: {path}" in _spoken(said)
    assert "lost contact" not in said
    assert {str(round)} <= {entry.name for entry in (path / "checkpoint").iterdir()}
    assert_same(go(*LONG, results), long_run)


def test_a_rank_that_is_killed_twice_costs_the_rounds_since_the_checkpoint(long_run: Path, results: str) -> None:
    """torchrun starts the ranks again, which find each other."""
    path = run_folder(*LONG, results)
    with torchrun(3, *LONG, results, restarts=3) as process:
        for least in (100, 300):
            _until(path, least, process)
            ranks = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(ranks[-1]), signal.SIGKILL)
        said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert said.count("resumed at round") == 2
    assert_same(path, long_run)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
@pytest.mark.parametrize("algorithm", ["ef21", "onebit_adam"])
def test_one_rank_equals_the_simulation(algorithm: str, device: str, results: str, tmp_path: Path) -> None:
    """All workers on it, by gloo on a CPU, by NCCL on a GPU."""
    run = (*DIGITS, "epochs=null", f"algorithm={algorithm}", f"device={device}")
    with torchrun(1, *run, results) as process:
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    alone = (sys.executable, "-m", "experiments.run", *run, f"results_dir={tmp_path / 'alone'}")
    subprocess.run(alone, cwd=ROOT, env=ALONE, check=True)
    together, simulated = (timeless(file.parent) for file in sorted(tmp_path.rglob("metrics.jsonl")))
    assert len(simulated) == 4
    assert together == simulated


def test_a_figure_by_two_ranks(results: str, tmp_path: Path) -> None:
    outputs(spawn(tmp_path, 2, partial(reproduce.main, [*FIGURE, results])))
    assert sorted((run.seed, run.state) for run in find(tmp_path / "results")) == [(0, "finished"), (1, "finished")]
