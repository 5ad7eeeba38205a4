"""torchrun starts ranks again after one was lost: they find each other, and nothing but time is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_support import timeless

from experiments.run import main

ROOT = Path(__file__).parents[2]
RUN = ["algorithm=cd_adam", "task=logreg/breast_cancer", "rounds=600", "eval_every=100", "checkpoint_every=50",
       "cluster.workers=4", "threads=1"]  # fmt: skip


@pytest.mark.slow
def test_a_rank_that_is_killed_twice_costs_the_rounds_since_the_checkpoint(tmp_path: Path) -> None:
    main([*RUN, f"results_dir={tmp_path / 'alone'}"])
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=3",
        "--max-restarts=3",
    ]
    with (tmp_path / "output").open("w") as output:
        launch = subprocess.Popen(
            [*command, "-m", "experiments.run", *RUN, f"results_dir={tmp_path / 'ranks'}"],
            cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            for rounds in (100, 300):
                wait_for(tmp_path / "ranks", rounds)
                os.kill(ranks_of(launch.pid)[-1], signal.SIGKILL)
            assert launch.wait(120) == 0, (tmp_path / "output").read_text()
        finally:
            launch.kill()
    [alone], [together] = ([*(tmp_path / name).glob("*/*/*/*/")] for name in ("alone", "ranks"))
    assert timeless(together) == timeless(alone)
    assert (tmp_path / "output").read_text().count("resumed at round") == 2


def wait_for(results: Path, rounds: int) -> None:
    """Until a checkpoint of that round or a later one is there."""
    limit = time.monotonic() + 60
    while not any(int(file.parent.name) >= rounds for file in results.glob("*/*/*/*/checkpoint/*/shared.pt")):
        assert time.monotonic() < limit
        time.sleep(0.05)


def ranks_of(launcher: int) -> list[int]:
    """The processes that torchrun started."""
    return [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]
