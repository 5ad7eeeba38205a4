"""torchrun starts ranks again after one was lost: they find each other, and nothing but time is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from run_support import timeless
from torch.distributed import HashStore
from torch.distributed.distributed_c10d import Store

from experiments.cluster.launch import own_part
from experiments.run import main

ROOT = Path(__file__).parents[2]
RUN = ["algorithm=cd_adam", "task=logreg/breast_cancer", "rounds=600", "eval_every=100", "checkpoint_every=50",
       "cluster.workers=4", "threads=1"]  # fmt: skip


def met(store: Store, size: int, late: int) -> list[str]:
    """What each rank finds that rank 0 wrote; rank `late` comes after the others."""

    def of(rank: int) -> str:
        time.sleep(0.1 if rank == late else 0)
        part = own_part(store, rank, size)
        if rank == 0:
            part.set("address", f"of start {time.monotonic()}")
        return part.get("address").decode()

    with ThreadPoolExecutor(size) as ranks:
        return list(ranks.map(of, range(size)))


@pytest.mark.parametrize("late", [0, 1])
def test_what_earlier_ranks_wrote_is_not_read(late: int) -> None:
    store = HashStore()
    starts = [met(store, 3, late) for _ in range(4)]
    assert all(len(set(found)) == 1 for found in starts)
    assert len({found[0] for found in starts}) == 4


def test_a_start_that_some_ranks_never_came_to_is_not_waited_for() -> None:
    store = HashStore()
    store.set("start", "gone")  # rank 0 of an earlier start, killed before it answered anybody
    store.set("gone asked by 1", "nobody")
    assert len(set(met(store, 3, 0))) == 1


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
    while not any(int(file.read_text()) >= rounds for file in results.glob("*/*/*/*/checkpoint/latest")):
        assert time.monotonic() < limit
        time.sleep(0.05)


def ranks_of(launcher: int) -> list[int]:
    """The processes that torchrun started."""
    return [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]
