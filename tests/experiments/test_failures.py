"""Runs that cannot go on, and folders that are not as a run left them."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from run_support import SMALL, go, halted, rows, status, timeless, where

from experiments.config.compose import ROOT
from experiments.run_store.folder import RunFolder


def test_diverging_training_stops_with_the_reason(results: str, capsys: pytest.CaptureFixture) -> None:
    command = [*SMALL, results, "algorithm=sgd", "lr=[0.001,1e308]"]
    path = where(*command)
    for _ in range(2):
        assert halted(command) == 1
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
    assert halted(command) == 1
    assert "round 2, worker 0, trial 0 (lr=1e+307): local gradient is" in capsys.readouterr().err
    assert status(where(*command))["round"] == 1
    assert [row["round"] for row in rows(where(*command))] == [0]


def test_wrong_data(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "bad.svm"
    file.write_text("1 1:1\n0 one:2\n")
    command = [results, "task=logreg/file", f"task.dataset.file={file}", f"data_dir={tmp_path}"]
    assert halted(command) == 1
    assert f"{file}, line 2" in capsys.readouterr().err
    assert halted([*SMALL, results, "cluster.workers=570"]) == 2
    assert "cluster.workers=570: the data set has 569 rows" in capsys.readouterr().err


def test_a_run_that_another_holds_is_refused(results: str, capsys: pytest.CaptureFixture) -> None:
    path = where(*SMALL, results)
    with RunFolder(path).locked():
        assert halted([*SMALL, results]) == 1
    assert f"{path}: another process is at this run" in capsys.readouterr().err
    assert go(*SMALL, results) == path
    assert status(path)["status"] == "finished"


@pytest.mark.parametrize(
    ("damage", "which"), [("cut", "shared.pt"), pytest.param("empty", "worker-3.pt", marks=pytest.mark.slow)]
)
def test_a_damaged_checkpoint_is_named(
    damage: str, which: str, interrupted: Path, results: str, capsys: pytest.CaptureFixture
) -> None:
    folder = interrupted / "checkpoint" / "12"
    checkpoint = folder / which
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"")
    before = (interrupted / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert halted([*SMALL, results]) == 1
    said = capsys.readouterr().err
    assert (
        f"error: {folder.parent}: cannot be resumed ({folder}: {which}: damaged: the checksum does not match)" in said
    )
    assert f"delete {interrupted} to begin anew" in said
    assert (interrupted / "metrics.jsonl").read_bytes() == before
    checkpoint.write_bytes(whole)
    assert go(*SMALL, results) == interrupted


def test_metrics_that_lost_rows_are_noticed(interrupted: Path, results: str, capsys: pytest.CaptureFixture) -> None:
    metrics = interrupted / "metrics.jsonl"
    metrics.write_text(metrics.read_text()[:-30])
    for reason in (f"{metrics}: rows are missing at its end", "interrupted, but without metrics.jsonl"):
        assert halted([*SMALL, results]) == 1
        said = capsys.readouterr().err
        assert reason in said
        assert f"delete {interrupted} to begin anew" in said
        metrics.unlink(missing_ok=True)


@pytest.mark.slow
def test_without_its_checkpoint_a_run_begins_anew(interrupted: Path, results: str, tmp_path: Path) -> None:
    shutil.rmtree(interrupted / "checkpoint")
    assert timeless(go(*SMALL, results)) == timeless(go(*SMALL, f"results_dir={tmp_path / 'other'}"))


def test_damaged_files_are_named(interrupted: Path, results: str, capsys: pytest.CaptureFixture) -> None:
    for text in ("", "{}", "[]"):
        (interrupted / "status.json").write_text(text)
        assert halted([*SMALL, results]) == 1
        said = capsys.readouterr().err
        assert f"{interrupted / 'status.json'}: " in said
        assert f"delete {interrupted}" in said
    finished = go(*SMALL, "seed=1", results)
    for name in ("summary.json", "metrics.jsonl"):
        (finished / name).rename(finished / "kept")
        assert halted([*SMALL, "seed=1", results]) == 1
        assert f"{finished}: finished, but without {name}; delete" in capsys.readouterr().err
        (finished / "kept").rename(finished / name)


def test_output_that_nobody_reads_any_more_ends_a_command_in_silence() -> None:
    """As in `python -m experiments.status | head -1`."""
    endless = "while True: print('a line', flush=True)"
    code = f"from common.errors import exit_with_message\nwith exit_with_message():\n    {endless}"
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert command.stdout is not None
    assert command.stdout.readline() == b"a line\n"
    command.stdout.close()
    assert command.communicate()[1] == b""
    assert command.returncode == 1


@pytest.mark.slow
def test_the_checkpoint_before_a_damaged_one_is_gone_on_from(
    results: str, at_round: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    command = (*SMALL, "checkpoint_every=5")
    at_round(12, lambda: signal.raise_signal(signal.SIGINT))
    assert halted([*command, results]) == 130
    path = where(*command, results)
    for name in ("12", "10"):
        file = path / "checkpoint" / name / "worker-3.pt"
        shutil.copy(file, tmp_path / name)
        file.write_bytes(b"")
    rows_then = (path / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    assert halted([*command, results]) == 1
    said = capsys.readouterr().err
    for name in ("12", "10"):
        assert f"{path / 'checkpoint' / name}: worker-3.pt: damaged: the checksum does not match" in said
    assert f"delete {path} to begin anew" in said
    assert "Traceback" not in said
    assert (path / "metrics.jsonl").read_bytes() == rows_then
    shutil.copy(tmp_path / "10", path / "checkpoint" / "10" / "worker-3.pt")
    go(*command, results)
    said = capsys.readouterr().err
    assert (
        f"{path / 'checkpoint' / '12'}: worker-3.pt: damaged: the checksum does not match; the checkpoint of" in said
    )
    assert f"resumed at round 10: {path}" in said
    assert timeless(path) == timeless(go(*SMALL, f"results_dir={tmp_path / 'other'}"))


@pytest.mark.slow
def test_what_ended_a_run_is_told_where_nothing_can_be_saved(
    results: str, at_round: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an error of a GPU, which gives the tensors back no more."""

    def lost() -> None:
        monkeypatch.setattr(RunFolder, "save", unsaved)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def unsaved(*arguments: object) -> None:
        raise RuntimeError("CUDA error: in torch.save")

    at_round(8, lost)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        go(*SMALL, results)
    told = status(where(*SMALL, results))
    assert told["status"] == "failed"
    assert "illegal memory access" in told["error"]


def test_what_killed_processes_left_is_removed(interrupted: Path, results: str, at_round: Callable) -> None:
    folder = interrupted / "checkpoint"

    def litter(name: str) -> None:
        for place in (interrupted, folder, folder / "12", folder / "3", folder / "20"):
            if place.exists() or place.name == "3":
                place.mkdir(exist_ok=True)
                (place / f".{name}.0123.tmp").write_bytes(b"half")
        (folder / "15").mkdir()  # not complete

    litter("status.json")
    found = []
    at_round(14, lambda: found.extend(sorted(file.name for file in folder.rglob("*") if "worker" not in file.name)))
    go(*SMALL, results)
    assert found == ["12", "shared.pt"]
    assert {file.name for file in folder.iterdir()} == {"20"}
    litter("summary.json")
    go(*SMALL, results)
    assert {file.name for file in folder.iterdir()} == {"20"}
    assert not list(interrupted.rglob("*.tmp"))


@pytest.mark.parametrize("way", ["a row", pytest.param("a stop", marks=pytest.mark.slow)])
def test_a_folder_removed_while_its_run_is_going_on(
    way: str, results: str, at_round: Callable, capsys: pytest.CaptureFixture
) -> None:
    command = [*SMALL, results, f"eval_every={5 if way == 'a row' else 20}"]
    command += [f"checkpoint_every={5 if way == 'a checkpoint' else 500}"]
    path = where(*command)

    def remove() -> None:
        shutil.rmtree(path)
        if way == "a stop":
            signal.raise_signal(signal.SIGINT)

    at_round(8, remove)
    assert halted(command) == 1
    said = capsys.readouterr().err
    assert f"error: {path}: the folder was removed; the same command begins anew" in said
    assert not path.exists()
    go(*command)
