"""The batch script for SLURM, with stand-ins for SLURM's commands. Both machines are folders of this one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_support import assert_same, free_port, variant
from run_support import bring, status

from experiments.config.identity import folder
from experiments.run_store.checkpoint import rounds

ROOT = Path(__file__).parents[2]
RUN = ("algorithm=cd_adam", "task=logreg/breast_cancer", "rounds=2000", "cluster.workers=4", "checkpoint_every=100")
COMMANDS = {
    # srun takes its number of cores from SRUN_CPUS_PER_TASK, not from the job. SIGTERM makes it kill its tasks.
    "srun": """
        [ "$SRUN_CPUS_PER_TASK" = 3 ] || exit 1
        trap 'kill -KILL $one $two' TERM
        "$@" & one=$!
        cd "$SECOND" && "$@" & two=$!
        echo $one $two > "$TASKS"
        wait $one
        wait $two""",
    "scancel": '[ "$*" = "--signal=TERM 17" ] && kill -TERM $(cat "$TASKS")',
    "scontrol": 'case $1 in show) echo localhost; echo localhost;; requeue) echo "$2" >> "$QUEUED";; esac',
    "torchrun": f'exec {sys.executable} -m torch.distributed.run "$@"',
}


@pytest.mark.slow
def test_a_job_is_queued_again_and_its_run_goes_on(tmp_path: Path) -> None:
    for name, lines in COMMANDS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    first, second = tmp_path / "first", tmp_path / "second"
    for machine in (first, second):
        machine.mkdir()
    queued, run = tmp_path / "queued", variant(*RUN, results=first / "results")
    slurm = {"SLURM_JOB_NODELIST": "two", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "17"}
    slurm |= {
        "SLURM_CPUS_PER_TASK": "3",
        "RANKS": "1",
        "QUEUED": str(queued),
        "TASKS": str(tmp_path / "tasks"),
        "SECOND": str(second),
    }
    environment = {**os.environ, **slurm, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def start() -> subprocess.Popen:
        words = ["bash", str(ROOT / "examples/slurm.sbatch"), *RUN, "results_dir=results"]
        return subprocess.Popen(words, cwd=first, env={**environment, "PORT": str(free_port())})

    job, end = start(), time.monotonic() + 200
    while job.poll() is None and not (there := rounds(folder(run) / "checkpoint")) and time.monotonic() < end:
        time.sleep(0.1)
    assert there
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == 0
    assert queued.read_text() == "17\n"
    assert status(folder(run))["status"] == "interrupted"
    assert start().wait(200) == 0
    assert queued.read_text() == "17\n"
    bring(expected := variant(*RUN, results=tmp_path / "expected"))
    assert_same(folder(run), folder(expected))
    assert not [*second.iterdir()]
