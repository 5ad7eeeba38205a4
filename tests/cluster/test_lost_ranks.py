"""A rank that dies, hangs, fails or never comes: the others end with a message, and the run goes on."""

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cluster_support import Launch, as_torchrun, assert_same, at_round, free_port, kill, run_all, spawn, variant
from run_support import go, status
from waiting import until

from experiments.config.identity import folder
from experiments.config.schema import ClusterConfig, RunConfig
from experiments.training.trainer import Trainer

COMMAND = (
    *("task=logreg/breast_cancer", "rounds=9", "eval_every=3", "checkpoint_every=4", "lr=[0.003,0.01]"),
    *("cluster.workers=4", "threads=1"),
)
TIMEOUT = 1.5


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    return variant(*COMMAND, results=tmp_path / "results")


def _with_timeout(run: RunConfig, seconds: float) -> RunConfig:
    return replace(run, cluster=ClusterConfig(workers=4, timeout=seconds))


def _one_message(said: str, path: Path) -> bool:
    """Whether there is one error, in one line, that names the run's folder and what to do."""
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    return (
        len(errors) == 1
        and "lost contact to the other ranks" in errors[0]
        and errors[0].endswith(f"the same command goes on from the last checkpoint: {path}")
        and "Traceback" not in said
        and "/gloo/" not in said
    )


def _fail() -> None:
    raise ZeroDivisionError("by what?")


def _spoil() -> None:
    """From now on gradients are not finite."""
    clipped = Trainer._clip
    Trainer._clip = lambda self, gradients, t: clipped(self, gradients / 0, t)


@pytest.mark.parametrize(
    ("do", "rank", "said"),
    [
        (kill, 1, ""),
        pytest.param(kill, 0, "", marks=pytest.mark.slow),
        pytest.param(_fail, 1, "ZeroDivisionError: by what?", marks=pytest.mark.slow),
        pytest.param(_spoil, 1, "error: rank 1: round 7, worker 2, trial 0 (lr=0.003): ", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_dies_or_crashes(
    do: Callable, rank: int, said: str, run: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    ranks = spawn(tmp_path / "first", 2, partial(at_round, 7, rank, do, partial(run_all, [run])))
    lost, left = ranks[rank], ranks[1 - rank]
    assert lost.code == (-9 if do is kill else 1)
    assert said in lost.said
    assert left.code == 1
    assert left.said.startswith("error: rank 1: ") == (rank == 0)
    assert _one_message(left.said, folder(run)), left.said
    # If rank 0 is killed, no process can set the status.
    assert status(folder(run))["status"] == ("running" if (do, rank) == (kill, 0) else "failed")
    go(*COMMAND, f"results_dir={run.results_dir}")  # all workers in one process, as none of those before had them
    assert f"resumed at round 4: {folder(run)}" in capsys.readouterr().err.replace("\n", "")
    assert_same(folder(run), go(*COMMAND, f"results_dir={tmp_path / 'alone'}"))


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "silent", "size"), [(_stop, 0, 2), (_stop, 2, 3), (partial(time.sleep, 600), 1, 2)])
def test_a_rank_that_does_not_answer_is_named(
    how: Callable, silent: int, size: int, run: RunConfig, tmp_path: Path
) -> None:
    hanging = partial(at_round, 7, silent, how, partial(run_all, [_with_timeout(run, TIMEOUT)]))
    launch = Launch(tmp_path / "first", size, hanging)
    for number, process in enumerate(launch.ranks):
        if number != silent:
            process.join(60)
    ranks = launch.wait(timeout=0)  # which kills the silent one, as a launcher does
    ranks.pop(silent)
    for rank in ranks:
        assert rank.code == 1
        assert _one_message(rank.said, folder(run)), rank.said
    assert f"no answer from rank {silent}; lost contact" in ranks[0].said
    assert status(folder(run))["status"] == ("failed" if silent else "running")
    assert status(folder(run)).get("error", "").startswith(f"no answer from rank {silent}; " if silent else "")
    assert_same(go(*COMMAND, f"results_dir={run.results_dir}"), go(*COMMAND, f"results_dir={tmp_path / 'alone'}"))


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "taken"), [(0, False), (1, False), (1, True)])
def test_ranks_that_never_come_or_a_port_that_never_answers(
    rank: int, taken: bool, run: RunConfig, tmp_path: Path
) -> None:
    begin = time.monotonic()
    with closing(socket.socket()) as listener:  # takes what it is sent
        listener.bind(("127.0.0.1", 0 if taken else free_port()))
        port = listener.getsockname()[1]
        listener.listen() if taken else listener.close()
        act = partial(run_all, [_with_timeout(run, TIMEOUT)])
        [ended] = Launch(tmp_path / "lost", 1, act, lambda _: as_torchrun(rank, 2, port)).wait(timeout=60)
    assert ended.code == 1
    assert f"error: {'rank 1: ' * rank}the other ranks could not be reached at 127.0.0.1:{port} (" in ended.said
    assert "Traceback" not in ended.said
    assert time.monotonic() - begin < TIMEOUT + 10
    assert not folder(run).exists()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 3), (3, 2)])
def test_ranks_of_different_launches_say_so(sizes: tuple[int, int], run: RunConfig, tmp_path: Path) -> None:
    port, act = free_port(), partial(run_all, [_with_timeout(run, 100)])
    ranks = spawn(tmp_path / "lost", 2, act, environment=lambda rank: as_torchrun(rank, sizes[rank], port))
    for rank, ended in enumerate(ranks):
        difference = f"WORLD_SIZE: {sizes[rank]} on rank {rank}, {sizes[1 - rank]} on rank {1 - rank}"
        assert ended.code == 2
        assert ended.said == f"error: {'rank 1: ' * rank}{difference}; set the same on all ranks\n"


@pytest.mark.slow
def test_one_signal_ends_a_rank_that_waits_for_the_others(run: RunConfig, tmp_path: Path) -> None:
    port, act = free_port(), partial(run_all, [_with_timeout(run, 100)])
    waiting = Launch(tmp_path / "waiting", 1, act, lambda _: as_torchrun(0, 2, port))
    until(lambda: _answers(port), 60)
    os.kill(waiting.ranks[0].pid, signal.SIGINT)
    [rank] = waiting.wait(timeout=10)
    assert (rank.code, rank.said) == (-signal.SIGINT, "")


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
