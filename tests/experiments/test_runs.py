"""Runs from beginning to end: what they leave on disk, and how they are stopped, resumed, skipped and refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from run_support import SMALL, go, rows, status, stored_config, timeless, where

from experiments import run
from experiments.config import CONF, load_run
from experiments.results import RunFolder
from experiments.trainer import Trainer

ROOT = CONF.parent

COLUMNS = {
    "round",
    "epoch",
    "trial",
    "lr",
    "bits_up",
    "bits_down",
    "bits",
    "payload_bytes",
    "train_loss",
    "grad_norm",
}
COLUMNS |= {"train_accuracy", "seconds"}
ERRORS = {"aggregate_error", "signal_error"}

RANDOM = ("algorithm=ef21", "compressor=random_k", "compressor.k=4", "task.batch_size=3", "lr=[0.01,0.1]")
"""A run with everything that draws random numbers."""


@pytest.fixture
def results(tmp_path: Path) -> str:
    """The override that puts runs into the test's folder."""
    return f"results_dir={tmp_path / 'results'}"


def stopped(overrides: list[str]) -> int:
    """The exit status of a command line that does not end well."""
    with pytest.raises(SystemExit) as stop:
        run.main(overrides)
    return stop.value.code


def contents(path: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of change of every file of a run, the lock aside."""
    return {
        str(file.relative_to(path)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file() and file.name != ".lock"
    }


@pytest.fixture
def at_round(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, Callable[[], None]], None]]:
    """Calls something once, when a run is about to begin a given round."""
    step = Trainer.step

    def arrange(round: int, act: Callable[[], None]) -> None:
        pending = [act]

        def acting(trainer: Trainer, diagnose: bool = False) -> None:
            if pending and trainer.t + 1 == round:
                pending.pop()()
            step(trainer, diagnose)

        monkeypatch.setattr(Trainer, "step", acting)

    yield arrange
    monkeypatch.undo()


# A finished run


def test_what_a_finished_run_leaves(results: str) -> None:
    path = go(*SMALL, results, "lr=[0.001,0.003]")
    names = {"config.yaml", "status.json", "environment.json", "summary.json", "metrics.jsonl", "checkpoint/state.pt"}
    assert set(contents(path)) == names
    assert status(path)["status"] == "finished"
    assert stored_config(path) == load_run([*SMALL, results, "lr=[0.001,0.003]"])
    environment = json.loads((path / "environment.json").read_text())
    assert environment["packages"]["torch"] == torch.__version__
    assert (environment["data"], environment["d"], environment["rows"]) == ("breast_cancer", 30, 569)
    assert (environment["rows_per_worker"], environment["rows_left_out"]) == (28, 9)
    assert {"commit", "python", "system", "processor", "cores", "threads", "gpus"} <= set(environment)


def test_columns_of_the_metrics(results: str) -> None:
    first, *later = rows(go(*SMALL, results))
    # The errors of a round's compressed gradient, and v̂, are there once a round has been done.
    assert set(first) == COLUMNS
    assert {frozenset(row) for row in later} == {frozenset(COLUMNS | ERRORS | {"second_moment"})}
    assert set(rows(go(*SMALL, results, "algorithm=sgd"))[1]) == COLUMNS | ERRORS


@pytest.mark.parametrize(
    ("rounds", "eval_every", "expected"),
    [(20, 5, [0, 5, 10, 15, 20]), (11, 4, [0, 4, 8, 11]), (3, 10, [0, 3]), (1, 1, [0, 1])],
)
def test_rows_at_the_start_then_regularly_and_at_the_end(
    rounds: int, eval_every: int, expected: list[int], results: str
) -> None:
    path = go(*SMALL, results, "lr=[0.001,0.003]", f"rounds={rounds}", f"eval_every={eval_every}")
    assert [(row["round"], row["trial"], row["lr"]) for row in rows(path)] == [
        (r, trial, lr) for r in expected for trial, lr in enumerate([0.001, 0.003])
    ]


@pytest.mark.parametrize(
    ("overrides", "up", "down"),
    [
        (["algorithm=cd_adam"], 30 + 32, 30 + 32),
        (["algorithm=naive"], 30 + 32, 30 + 32),
        (["algorithm=error_feedback", "algorithm.uplink_only=true"], 30 + 32, 32 * 30),
        (["algorithm=amsgrad"], 32 * 30, 32 * 30),
        (["algorithm=cd_adam", "compressor=top_k", "compressor.k=7"], 64 * 7, 64 * 7),
        (["algorithm=ef21"], 64, 64),  # ⌊0.016 · 30⌋ is 0, and one coordinate is sent at least
        (["algorithm=naive", "compressor=random_k", "compressor.k=5"], 32 * 5 + 64, 32 * 5 + 64),
    ],
)
def test_bits(overrides: list[str], up: int, down: int, results: str) -> None:
    found = rows(go(*SMALL, results, *overrides))
    assert [row["bits_up"] for row in found] == [up * row["round"] for row in found]
    assert [row["bits_down"] for row in found] == [down * row["round"] for row in found]
    assert [row["bits"] for row in found] == [(up + down) * row["round"] for row in found]


def test_a_dense_start_is_counted(results: str) -> None:
    found = rows(go(*SMALL, results, "algorithm=ef21", "algorithm.dense_start=true", "eval_every=1"))
    assert [row["bits_up"] for row in found[:4]] == [0, 960, 960 + 64, 960 + 128]


def test_payload_bytes_are_those_of_float64(results: str) -> None:
    # Signs: ⌈30/8⌉ bytes and one scale; dense: 30 doubles; top-k: 7 doubles and 7 int32.
    for overrides, size in [
        (["algorithm=cd_adam"], 4 + 8),
        (["algorithm=amsgrad"], 240),
        (["algorithm=cd_adam", "compressor=top_k", "compressor.k=7"], 84),
    ]:
        assert rows(go(*SMALL, results, *overrides))[-1]["payload_bytes"] == 2 * 20 * size


def test_the_first_row_is_the_start(results: str) -> None:
    first = rows(go(*SMALL, results))[0]
    assert first["train_loss"] == pytest.approx(0.6931471805599453, rel=1e-15)
    assert [first[name] for name in ("bits_up", "bits_down", "bits", "payload_bytes", "seconds", "epoch")] == [0] * 6


def test_summary(results: str) -> None:
    path = go(*SMALL, results, "lr=[0.001,0.5]")
    found, summary = rows(path), json.loads((path / "summary.json").read_text())
    assert summary["bits"] == 20 * 2 * 62
    assert [trial["lr"] for trial in summary["trials"]] == [0.001, 0.5]
    for number, trial in enumerate(summary["trials"]):
        mine = [row for row in found if row["trial"] == number]
        assert trial["final"] == mine[-1]
        assert trial["best"] == {
            "train_loss": min(row["train_loss"] for row in mine),
            "grad_norm": min(row["grad_norm"] for row in mine),
            "train_accuracy": max(row["train_accuracy"] for row in mine),
        }
    # With so long a step the best is not the last.
    assert summary["trials"][1]["best"]["train_loss"] < summary["trials"][1]["final"]["train_loss"]


@pytest.mark.parametrize("algorithm", sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml")))
def test_every_algorithm_trains(algorithm: str, results: str) -> None:
    found = rows(go(*SMALL, results, f"algorithm={algorithm}", "rounds=40", "lr=0.01"))
    assert found[-1]["train_loss"] < 0.9 * found[0]["train_loss"]
    assert found[-1]["grad_norm"] < 0.9 * found[0]["grad_norm"]


def test_seconds_grow(results: str) -> None:
    seconds = [row["seconds"] for row in rows(go(*SMALL, results))]
    assert seconds == sorted(set(seconds))


def test_a_finished_run_is_left_alone(results: str, capsys: pytest.CaptureFixture) -> None:
    path = go(*SMALL, results)
    before = contents(path)
    capsys.readouterr()
    assert go(*SMALL, results) == path
    assert contents(path) == before
    assert go(*SMALL, results, "task.display.label=other", "checkpoint_every=3") == path
    assert stored_config(path)["task"]["display"]["label"] == "other"
    assert {name: kept for name, kept in contents(path).items() if name != "config.yaml"} == {
        name: kept for name, kept in before.items() if name != "config.yaml"
    }
    assert f"already finished: {path}" in capsys.readouterr().err


def test_a_sweep_makes_one_folder_each(results: str) -> None:
    run.main(["-m", *SMALL, results, "algorithm=cd_adam,ef21", "seed=0,1"])
    paths = [where(*SMALL, results, f"algorithm={name}", f"seed={s}") for name in ("cd_adam", "ef21") for s in (0, 1)]
    assert len(set(paths)) == 4
    assert [status(path)["status"] for path in paths] == ["finished"] * 4


@pytest.mark.parametrize("overrides", [(), RANDOM])
def test_the_same_run_elsewhere_is_the_same_bit_for_bit(overrides: tuple[str, ...], tmp_path: Path) -> None:
    one, two = (timeless(go(*SMALL, *overrides, f"results_dir={tmp_path / name}")) for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("overrides", [("algorithm=cd_adam",), RANDOM[:-1], ("algorithm=amsgrad",)])
def test_a_grid_is_its_step_sizes_one_by_one(overrides: tuple[str, ...], results: str) -> None:
    lrs = [0.001, 0.003, 0.01]
    together = rows(go(*SMALL, results, *overrides, f"lr={lrs}".replace(" ", "")))
    for trial, lr in enumerate(lrs):
        mine = [row for row in together if row["trial"] == trial]
        for row, alone in zip(mine, rows(go(*SMALL, results, *overrides, f"lr={lr}")), strict=True):
            assert set(row) == set(alone)
            for name in set(row) - {"seconds", "trial"}:
                assert row[name] == pytest.approx(alone[name], rel=1e-9, abs=1e-13), name


def test_seeds_matter_where_something_is_drawn(results: str) -> None:
    one, two = (timeless(go(*SMALL, *RANDOM, results, f"seed={seed}")) for seed in (0, 1))
    assert one[0] == two[0]
    assert one[-1]["train_loss"] != two[-1]["train_loss"]


def test_schedules(results: str) -> None:
    constant, decay = (
        rows(go(*SMALL, results, "algorithm=sgd", "lr=0.1", "eval_every=1", f"lr_schedule={name}"))
        for name in ("constant", "step_decay")
    )
    for before in range(11):
        assert decay[before]["train_loss"] == constant[before]["train_loss"]
    moved = [abs(decay[r]["train_loss"] - decay[r - 1]["train_loss"]) for r in range(1, 21)]
    # A tenth of the step along a gradient that is a little shorter each round.
    for first in (10, 15):
        assert 0.07 < moved[first] / moved[first - 1] < 0.1


# Stopped and resumed

SHORT = {
    "deterministic": (*SMALL, "rounds=23", "checkpoint_every=7"),
    "random": (*SMALL, *RANDOM, "rounds=23", "checkpoint_every=7"),
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict]]:
    """The rows of SHORT."""
    place = tmp_path_factory.mktemp("uninterrupted")
    return {name: timeless(go(*command, f"results_dir={place}")) for name, command in SHORT.items()}


@pytest.mark.parametrize("round", [1, 14, 23])
@pytest.mark.parametrize(
    ("which", "how"), [("deterministic", signal.SIGINT), ("random", signal.SIGINT), ("random", signal.SIGTERM)]
)
def test_stopped_then_resumed_is_as_if_never_stopped(
    which: str,
    how: signal.Signals,
    round: int,
    uninterrupted: dict[str, list[dict]],
    results: str,
    at_round: Callable,
    capsys: pytest.CaptureFixture,
) -> None:
    at_round(round, lambda: signal.raise_signal(how))
    halves = [*SHORT[which], results]
    path = where(*halves)
    if round < 23:
        assert stopped(halves) == 130
        assert status(path)["status"] == "interrupted"
        assert status(path)["round"] == round
        assert f"stopped after round {round}; the same command goes on: {path}" in capsys.readouterr().err
        assert max(row["round"] for row in rows(path)) == round - round % 5
        assert not (path / "summary.json").exists()
    else:  # the run is done, but whatever was to come after it is not
        assert stopped(halves) == 130
        assert "this run was just finished" in capsys.readouterr().err
    run.main(halves)
    assert status(path)["status"] == "finished"
    assert timeless(path) == uninterrupted[which]


def test_stopped_again_and_again(uninterrupted: dict[str, list[dict]], results: str, at_round: Callable) -> None:
    parts = [*SHORT["random"], results]
    for round in (3, 4, 9, 20):
        at_round(round, lambda: signal.raise_signal(signal.SIGINT))
        assert stopped(parts) == 130
    assert timeless(go(*parts)) == uninterrupted["random"]


def test_a_second_ctrl_c_stops_within_the_round(
    uninterrupted: dict[str, list[dict]], results: str, at_round: Callable
) -> None:
    halves = [*SHORT["random"], results]

    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    at_round(8, twice)
    assert stopped(halves) == 130
    assert (status(where(*halves))["status"], status(where(*halves))["round"]) == ("interrupted", 7)
    assert timeless(go(*halves)) == uninterrupted["random"]


def test_signals_are_handled_as_before_after_a_run(results: str) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    go(*SMALL, results)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("round", [1, 6, 8, 15, 22])
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
        raise MemoryError("out of memory")

    at_round(13, crash)
    with pytest.raises(MemoryError):
        run.main(halves)
    found = status(where(*halves))
    assert (found["status"], found["round"], found["error"]) == ("failed", 12, "out of memory")
    assert timeless(go(*halves)) == uninterrupted["random"]


LONG = ("task=logreg/breast_cancer", "rounds=2000", "eval_every=10", "checkpoint_every=50", "task.batch_size=3")
"""A run of a second or two."""


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """The rows of LONG, uninterrupted."""
    return timeless(go(*LONG, f"results_dir={tmp_path_factory.mktemp('long')}"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_process(
    how: signal.Signals, long_run: list[dict], results: str, capsys: pytest.CaptureFixture
) -> None:
    path = where(*LONG, results)
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.run", *LONG, results],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (path / "checkpoint" / "state.pt").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.002)
        if how == signal.SIGKILL:  # While it lives the run is its own.
            assert stopped([*LONG, results]) == 1
            assert "another process is at this run" in capsys.readouterr().err
        process.send_signal(how)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    if how == signal.SIGKILL:
        assert (process.returncode, status(path)["status"]) == (-signal.SIGKILL, "running")
    else:
        assert (process.returncode, status(path)["status"]) == (130, "interrupted")
        assert "the same command goes on" in said
        assert "Traceback" not in said
    assert 0 < len((path / "metrics.jsonl").read_text().splitlines()) < len(long_run)
    capsys.readouterr()
    assert timeless(go(*LONG, results)) == long_run
    assert "resumed at round" in capsys.readouterr().err


# Stopped by itself


def test_diverging_training_stops_with_the_reason(results: str, capsys: pytest.CaptureFixture) -> None:
    command = [*SMALL, results, "algorithm=sgd", "lr=[0.001,1e308]"]
    path = where(*command)
    for _ in range(2):
        assert stopped(command) == 1
        said = capsys.readouterr().err
        assert "Traceback" not in said
        for part in ("round 5", "trial 1 (lr=1e+308)", "train_loss is inf", "smaller step size"):
            assert part in said
        assert status(path)["status"] == "failed"
        assert "train_loss is inf" in status(path)["error"]
        assert [(row["round"], row["trial"]) for row in rows(path)] == [(0, 0), (0, 1)]


def test_a_gradient_that_is_not_finite_stops_before_the_next_row(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    # Steps of 1e307 along gradients of about 1e3 overflow, to opposite sides in the two coordinates.
    file = tmp_path / "steep.svm"
    file.write_text("".join(f"{j % 2} 1:{5e3 * (j % 2 - 0.4)} 2:{-5e3 * (j % 2 - 0.4)}\n" for j in range(40)))
    command = [results, "task=logreg/file", f"task.dataset.file={file}", f"data_dir={tmp_path}"]
    command += ["algorithm=sgd", "lr=1e307", "rounds=20", "eval_every=10", "cluster.workers=4"]
    assert stopped(command) == 1
    assert "round 2, worker 0, trial 0 (lr=1e+307): local gradient is" in capsys.readouterr().err
    assert status(where(*command))["round"] == 1
    assert [row["round"] for row in rows(where(*command))] == [0]


def test_a_file_that_is_no_data_set_is_named(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "bad.svm"
    file.write_text("1 1:1\n0 one:2\n")
    command = [results, "task=logreg/file", f"task.dataset.file={file}", f"data_dir={tmp_path}"]
    assert stopped(command) == 1
    assert f"{file}, line 2, column 3" in capsys.readouterr().err


def test_too_many_workers(results: str, capsys: pytest.CaptureFixture) -> None:
    assert stopped([*SMALL, results, "cluster.workers=570"]) == 1
    assert "569 rows for 570 workers" in capsys.readouterr().err


def test_a_run_that_another_holds_is_refused(results: str, capsys: pytest.CaptureFixture) -> None:
    path = where(*SMALL, results)
    with RunFolder(path).locked():
        assert stopped([*SMALL, results]) == 1
    assert f"{path}: another process is at this run" in capsys.readouterr().err
    assert go(*SMALL, results) == path
    assert status(path)["status"] == "finished"


def huge(folder: Path, columns: int) -> list[str]:
    """A run on a file whose gradients are finite and have squares that are not."""
    file = folder / "huge.svm"
    row = " ".join(f"{column}:1e200" for column in range(1, columns + 1))
    file.write_text("".join(f"{j % 3 // 2} {row}\n" for j in range(40)))
    return ["task=logreg/file", f"task.dataset.file={file}", f"data_dir={folder}", "rounds=4", "eval_every=2"]


def test_a_start_that_is_not_finite_is_recorded(results: str, tmp_path: Path) -> None:
    command = [*huge(tmp_path, columns=2), results]
    assert stopped(command) == 1
    assert status(where(*command))["status"] == "failed"


def test_what_is_written_is_finite(results: str, tmp_path: Path) -> None:
    command = [*huge(tmp_path, columns=1), results]
    with suppress(SystemExit):
        run.main(command)
    assert "Infinity" not in (where(*command) / "metrics.jsonl").read_text()


# Damaged folders


@pytest.fixture
def interrupted(results: str, at_round: Callable) -> Path:
    """A run stopped after round 12."""
    at_round(12, lambda: signal.raise_signal(signal.SIGINT))
    assert stopped([*SMALL, results]) == 130
    return where(*SMALL, results)


@pytest.mark.parametrize("damage", ["cut", "other bytes", "empty"])
def test_a_damaged_checkpoint_is_named(
    damage: str, interrupted: Path, results: str, capsys: pytest.CaptureFixture
) -> None:
    checkpoint = interrupted / "checkpoint" / "state.pt"
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes({"cut": whole[: len(whole) // 2], "other bytes": b"x" * 100, "empty": b""}[damage])
    before = (interrupted / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert stopped([*SMALL, results]) == 1
    said = capsys.readouterr().err
    assert f"error: {checkpoint}: cannot be resumed" in said
    assert f"delete {interrupted} to begin anew" in said
    assert (interrupted / "metrics.jsonl").read_bytes() == before
    checkpoint.write_bytes(whole)
    assert go(*SMALL, results) == interrupted


@pytest.mark.parametrize("damage", ["shorter", "gone"])
def test_metrics_that_lost_rows_are_noticed(
    damage: str, interrupted: Path, results: str, capsys: pytest.CaptureFixture
) -> None:
    metrics = interrupted / "metrics.jsonl"
    if damage == "gone":
        metrics.unlink()
    else:
        metrics.write_text(metrics.read_text()[:-30])
    assert stopped([*SMALL, results]) == 1
    assert "cannot be resumed" in capsys.readouterr().err


def test_without_its_checkpoint_a_run_begins_anew(interrupted: Path, results: str, tmp_path: Path) -> None:
    shutil.rmtree(interrupted / "checkpoint")
    assert timeless(go(*SMALL, results)) == timeless(go(*SMALL, f"results_dir={tmp_path / 'other'}"))


@pytest.mark.parametrize("content", ["", "{}", "{", "[]"])
def test_a_damaged_status_is_named_or_overcome(
    content: str, interrupted: Path, results: str, capsys: pytest.CaptureFixture
) -> None:
    (interrupted / "status.json").write_text(content)
    if content == "{}":  # says nothing, and the run is resumed from its checkpoint
        run.main([*SMALL, results])
        assert status(interrupted)["status"] == "finished"
    else:
        assert stopped([*SMALL, results]) == 1
        assert f"{interrupted / 'status.json'}: damaged" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["summary.json", "metrics.jsonl"])
def test_a_finished_run_that_lost_a_file_is_noticed(name: str, results: str, capsys: pytest.CaptureFixture) -> None:
    path = go(*SMALL, results)
    (path / name).unlink()
    assert stopped([*SMALL, results]) == 1
    assert f"{path}: finished, but without {name}; delete" in capsys.readouterr().err


def test_edited_metrics_do_not_spoil_a_resumed_run(interrupted: Path, results: str) -> None:
    metrics = interrupted / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"round": 0', '"round":      0'))
    with suppress(SystemExit):  # A message is as good as going on.
        run.main([*SMALL, results])
    assert [row["round"] for row in rows(interrupted)][:3] == [0, 5, 10]


def test_a_results_dir_that_cannot_be_written_to_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert stopped([*SMALL, f"results_dir={tmp_path / 'file'}"]) in (1, 2)
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_a_sweep_goes_on_after_a_run_that_fails(results: str, capsys: pytest.CaptureFixture) -> None:
    sweep = [*SMALL, results, "algorithm=naive", "compressor=top_k"]
    assert stopped(["-m", *sweep, "compressor.k=40,3"]) == 1
    said = capsys.readouterr().err
    assert "k=40: top_k sends between 1 and d = 30 coordinates" in said
    assert "1 of 2 runs failed" in said
    assert status(where(*sweep, "compressor.k=3"))["status"] == "finished"


def test_threads_are_set_and_no_part_of_what_a_run_is(results: str) -> None:
    before = torch.get_num_threads()
    try:
        path = go(*SMALL, results, "threads=1")
        assert torch.get_num_threads() == 1
        assert path == where(*SMALL, results)
    finally:
        torch.set_num_threads(before)


def test_other_hardware_is_noted_when_a_run_is_resumed(interrupted: Path, results: str) -> None:
    file = interrupted / "environment.json"
    recorded = json.loads(file.read_text())
    go(*SMALL, results)
    assert "resumed" not in json.loads(file.read_text())
    (interrupted / "status.json").write_text('{"status": "interrupted"}')
    file.write_text(json.dumps(recorded | {"processor": "another"}))
    go(*SMALL, results)
    [resumed] = json.loads(file.read_text())["resumed"]
    assert resumed["processor"] == recorded["processor"]
    assert resumed["round"] == 20


def test_a_failure_before_the_first_row_loses_no_row(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = Trainer.evaluate

    def out_of_memory(self: Trainer) -> list[dict]:
        raise MemoryError

    monkeypatch.setattr(Trainer, "evaluate", out_of_memory)
    with pytest.raises(MemoryError):
        go(*SMALL, results)
    monkeypatch.setattr(Trainer, "evaluate", evaluate)
    assert [row["round"] for row in rows(go(*SMALL, results))] == [0, 5, 10, 15, 20]
