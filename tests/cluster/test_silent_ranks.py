"""Ranks that are there and do not answer: the others end soon after the time-out and say which these are."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cluster_support import Launch, as_torchrun, at_round, fine, free_port, launched, run_each, variant
from run_support import status

from experiments.config.identity import folder
from experiments.config.schema import ClusterConfig, RunConfig

COMMAND = (
    *("task=logreg/breast_cancer", "rounds=9", "eval_every=3", "checkpoint_every=4"),
    *("cluster.workers=4", "threads=1"),
)
TIMEOUT = 1.5


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    """That of COMMAND, impatient."""
    run = variant(*COMMAND, results=tmp_path / "results")
    return replace(run, cluster=ClusterConfig(workers=4, timeout=TIMEOUT))


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _hang() -> None:
    time.sleep(600)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "silent", "size"), [(_stop, 0, 2), (_stop, 2, 3), (_hang, 1, 2)])
def test_a_rank_that_does_not_answer_is_named(
    how: Callable, silent: int, size: int, run: RunConfig, tmp_path: Path
) -> None:
    launch = Launch(tmp_path / "first", size, partial(at_round, 7, silent, how, partial(run_each, [run])))
    for number, process in enumerate(launch.ranks):
        if number != silent:
            process.join(60)
    ranks = launch.ended(timeout=0)  # which kills the silent one, as a launcher does
    ranks.pop(silent)
    assert [rank.code for rank in ranks] == [1] * (size - 1)
    for rank in ranks:
        assert f"the same command goes on from the last checkpoint: {folder(run)}" in rank.said
        assert "Traceback" not in rank.said
    assert f"no answer from rank {silent}; lost contact" in ranks[0].said
    assert status(folder(run))["status"] == ("failed" if silent else "running")
    assert status(folder(run)).get("error", "").startswith(f"no answer from rank {silent}; " if silent else "")
    fine(launched(tmp_path / "again", 2, partial(run_each, [replace(run, cluster=ClusterConfig(workers=4))])))
    assert status(folder(run))["status"] == "finished"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Of a listener that takes what it is sent and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.slow
def test_a_port_that_never_answers(silent_port: int, run: RunConfig, tmp_path: Path) -> None:
    begin = time.monotonic()
    lost = Launch(tmp_path / "lost", 1, partial(run_each, [run]), lambda rank: as_torchrun(1, 2, silent_port))
    [rank] = lost.ended(timeout=60)
    assert rank.code == 1
    assert rank.said.startswith(f"error: rank 1: the other ranks could not be reached at 127.0.0.1:{silent_port} (no")
    assert time.monotonic() - begin < TIMEOUT + 10
    assert not folder(run).exists()


def test_one_signal_ends_a_rank_that_waits_for_the_others(run: RunConfig, tmp_path: Path) -> None:
    run, port = replace(run, cluster=ClusterConfig(workers=4, timeout=100)), free_port()
    waiting = Launch(tmp_path / "waiting", 1, partial(run_each, [run]), lambda rank: as_torchrun(0, 2, port))
    deadline = time.monotonic() + 60
    while not _answers(port):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(waiting.ranks[0].pid, signal.SIGINT)
    [rank] = waiting.ended(timeout=10)
    assert (rank.code, rank.said) == (-signal.SIGINT, "")


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
