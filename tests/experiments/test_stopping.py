"""Runs that are stopped, killed or crash, and go on as if they had not."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from run_support import RANDOM, SMALL, go, halted, record, rewrite, rows, status, timeless, where

from common.signals import stops
from experiments.config.compose import CONF
from experiments.training.trainer import Trainer

SHORT = {
    "random": (*SMALL, *RANDOM, "rounds=23", "checkpoint_every=7"),
    "formed": (*SMALL, "rounds=23", "checkpoint_every=7", "lr_schedule=wsd", "warmup_rounds=3", "clip_worker=0.1"),
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict]]:
    """The rows of SHORT."""
    place = tmp_path_factory.mktemp("uninterrupted")
    return {name: timeless(go(*command, f"results_dir={place}")) for name, command in SHORT.items()}


@pytest.mark.parametrize(
    ("which", "how", "round"),
    [
        ("random", signal.SIGINT, 1),
        ("formed", signal.SIGTERM, 8),
        pytest.param("random", signal.SIGINT, 23, marks=pytest.mark.slow),
    ],
)
def test_stopped_then_resumed_is_as_if_never_stopped(
    which: str, how: signal.Signals, round: int, uninterrupted: dict[str, list[dict]], results: str,
    at_round: Callable, capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    at_round(round, lambda: signal.raise_signal(how))
    halves = [*SHORT[which], results]
    path = where(*halves)
    assert halted(halves) == 130
    if round < 23:
        assert (status(path)["status"], status(path)["round"]) == ("interrupted", round)
        assert f"stopped after round {round}; the same command goes on: {path}" in capsys.readouterr().err
        assert max(row["round"] for row in rows(path)) == round - round % 5
        assert not (path / "summary.json").exists()
    else:  # the run is done, but whatever was to come after it is not
        assert "this run was just finished" in capsys.readouterr().err
    go(*halves)
    assert status(path)["status"] == "finished"
    assert timeless(path) == uninterrupted[which]


def test_a_run_in_a_thread_of_its_own_takes_no_signals(results: str) -> None:
    parts, handlers = [*SHORT["random"], results], [signal.getsignal(number) for number in stops()]
    with ThreadPoolExecutor(1) as threads:
        rows = threads.submit(go, *parts).result()
    assert timeless(rows)[-1]["round"] > 0
    assert [signal.getsignal(number) for number in stops()] == handlers


@pytest.mark.slow
def test_stopped_again_and_again_within_a_round_too(
    uninterrupted: dict[str, list[dict]], results: str, at_round: Callable
) -> None:
    parts = [*SHORT["random"], results]
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    for round in (3, 4, 9, 20):
        at_round(round, twice if round == 9 else lambda: signal.raise_signal(signal.SIGINT))
        assert halted(parts) == 130
        done = 8 if round == 9 else round  # a second signal stops in the middle of a round
        assert (status(where(*parts))["status"], status(where(*parts))["round"]) == ("interrupted", done)
    assert timeless(go(*parts)) == uninterrupted["random"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.parametrize("round", [8, *(pytest.param(t, marks=pytest.mark.slow) for t in (1, 22))])
def test_what_a_power_cut_leaves_can_be_resumed(
    round: int, uninterrupted: dict[str, list[dict]], tmp_path: Path, at_round: Callable
) -> None:
    # The folder is copied while the run is at it: what is on disk then is what a killed run leaves.
    live, killed = ([*SHORT["random"], f"results_dir={tmp_path / name}"] for name in ("live", "killed"))
    at_round(round, lambda: shutil.copytree(where(*live), where(*killed)))
    assert timeless(go(*live)) == uninterrupted["random"]
    assert status(where(*killed))["status"] == "running"
    # And half of a row that was being written.
    with (where(*killed) / "metrics.jsonl").open("a") as file:
        file.write('{"round": 3')
    assert timeless(go(*killed)) == uninterrupted["random"]


def test_a_crash_is_recorded_and_can_be_resumed(
    uninterrupted: dict[str, list[dict]], results: str, at_round: Callable
) -> None:
    halves = [*SHORT["random"], results]

    def crash() -> None:
        raise ZeroDivisionError("by what?")

    at_round(13, crash)
    with pytest.raises(ZeroDivisionError):
        go(*halves)
    found = status(where(*halves))
    assert (found["status"], found["round"], found["error"]) == ("failed", 12, "by what?")
    assert timeless(go(*halves)) == uninterrupted["random"]


LONG = ("task=logreg/breast_cancer", "rounds=600", "eval_every=10", "checkpoint_every=50", "task.batch_size=3")


@pytest.mark.slow
def test_a_killed_process(results: str, capsys: pytest.CaptureFixture) -> None:
    path = where(*LONG, results)
    process = subprocess.Popen([sys.executable, "-m", "experiments.run", *LONG, results], cwd=CONF.parent)
    try:
        while not [*path.glob("checkpoint/*/shared.pt")]:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)  # or it could end before the next line asks
        assert halted([*LONG, results]) == 1  # while it lives the run is its own
        assert "another process is at this run" in capsys.readouterr().err
    finally:
        process.kill()
        process.wait()
    assert status(path)["status"] == "running"
    assert [row["round"] for row in rows(go(*LONG, results))] == list(range(0, 601, 10))
    assert "resumed at round" in capsys.readouterr().err


@pytest.mark.slow
def test_other_hardware_is_noted_when_a_run_is_resumed(interrupted: Path, results: str) -> None:
    recorded = record(interrupted, "environment")
    go(*SMALL, results)
    assert "resumed" not in record(interrupted, "environment")
    rewrite(interrupted, "status", {"status": "interrupted"})
    rewrite(interrupted, "environment", recorded | {"processor": "another"})
    go(*SMALL, results)
    [resumed] = record(interrupted, "environment")["resumed"]
    assert resumed["processor"] == recorded["processor"]
    assert resumed["round"] == 20


def test_a_failure_before_the_first_row_loses_no_row(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = Trainer.evaluate

    def failing(self: Trainer) -> list[dict]:
        raise ZeroDivisionError

    monkeypatch.setattr(Trainer, "evaluate", failing)
    with pytest.raises(ZeroDivisionError):
        go(*SMALL, results)
    monkeypatch.setattr(Trainer, "evaluate", evaluate)
    assert [row["round"] for row in rows(go(*SMALL, results))] == [0, 5, 10, 15, 20]
