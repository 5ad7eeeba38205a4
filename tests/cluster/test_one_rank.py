"""One rank under torchrun, all workers on it, against the simulation on the same device: the wire's numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from run_support import timeless

from experiments.config.compose import ROOT

RUN = (
    "task=digits", "task.model.width=4", "task.precision=float32", "rounds=12", "eval_every=4", "epochs=null",
    "threads=1",
)  # fmt: skip

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
@pytest.mark.parametrize("algorithm", ["ef21", "onebit_adam"])
def test_one_rank_equals_the_simulation(algorithm: str, device: str, tmp_path: Path) -> None:
    """By gloo on a CPU, by NCCL on a GPU."""
    here = "--local-addr=127.0.0.1"  # on a machine too whose own name leads nowhere
    torchrun = ["torch.distributed.run", "--standalone", here, "--nproc-per-node=1", "-m"]
    ended = []
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    for place, launcher in (("alone", []), ("rank", torchrun)):
        command = [sys.executable, "-m", *launcher, "experiments.run", *RUN, f"algorithm={algorithm}"]
        outside = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        command += [f"device={device}", f"results_dir={tmp_path / place}"]
        done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        [metrics] = (tmp_path / place).rglob("metrics.jsonl")
        ended.append(timeless(metrics.parent))
    assert len(ended[0]) == 4
    assert ended[0] == ended[1]
