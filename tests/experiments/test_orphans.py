"""Sweeps and torchruns that are killed: what they started is gone seconds later, and the same command goes on."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_support import SMALL, go, timeless, where
from sweep_support import linux, processes

from experiments.config.compose import ROOT

PATIENCE = 10.0  # seconds
RUN = (*SMALL, "rounds=1000", "eval_every=10", "checkpoint_every=50", "cluster.workers=4", "threads=1")
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
    words, mark = [sys.executable, "-m", *command, *RUN, *seeds, results], f"STARTED_BY_{tmp_path.name}"
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", "MARK": mark})
    try:
        while not list(tmp_path.rglob("checkpoint/*/shared.pt")):
            assert process.poll() is None
            time.sleep(0.01)
        others = set(processes(mark)) - {process.pid}
        assert others
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + PATIENCE
    while set(processes(mark)):
        assert time.monotonic() < deadline, set(processes(mark))
        time.sleep(0.1)
    subprocess.run(words, cwd=ROOT, check=True)
    for seed in ("seed=0", "seed=1")[: 1 + len(seeds)]:
        alone = go(*RUN, seed, f"results_dir={tmp_path / 'alone'}")
        assert timeless(where(*RUN, seed, results)) == timeless(alone)
