"""Runs that cannot go on, folders that are not as a run left them, and disks without room."""

import errno
import gc
import io
import json
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from run_support import SMALL, bring, configuration, contents, go, rows, run_exit_code, run_folder, status, timeless

from common import files
from common.errors import RunError, UsageError, exit_with_message, is_disk_full
from common.files import atomic_write, name_in_errors
from experiments.cluster.ranks import Ranks
from experiments.orchestration import plan
from experiments.run_store.folder import RunFolder
from experiments.training import build
from experiments.training.trainer import Trainer


def test_diverging_training_stops_with_the_reason(results: str, capsys: pytest.CaptureFixture) -> None:
    command = [*SMALL, results, "algorithm=sgd", "lr=[0.001,1e308]"]
    path = run_folder(*command)
    for _ in range(2):
        assert run_exit_code(command) == 1
        said = capsys.readouterr().err
        assert "Traceback" not in said
        for part in ("round 5", "trial 1 (lr=1e+308)", "train_loss is inf", "smaller step size"):
            assert part in said
        assert status(path)["status"] == "failed"
        assert "train_loss is inf" in status(path)["error"]
        assert [(row["round"], row["trial"]) for row in rows(path)] == [(0, 0), (0, 1)]


def test_a_gpu_without_enough_memory(results: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the run nor its trial keeps memory, whoever holds the error."""
    alive: list[weakref.ref] = []
    said = "CUDA out of memory. Tried to allocate 2.00 GiB"

    def step(trainer: Trainer, diagnose: bool = False) -> None:
        alive.append(weakref.ref(trainer))
        raise torch.OutOfMemoryError(f"{said}. GPU 0 has a total capacity of 1")

    def release() -> None:
        gc.collect()
        released.extend(one() for one in alive)

    released: list[Trainer | None] = []
    monkeypatch.setattr(Trainer, "step", step)
    monkeypatch.setattr(build, "release_gpu_memory", release)
    run = configuration(*SMALL, results)
    with pytest.raises(RunError, match=f"{run_folder(*SMALL, results)}: {said}; "):
        bring(run)
    with pytest.raises(UsageError, match=f"^logreg/breast_cancer: {said}; "):
        plan.run_trial(run, Ranks(), 1, print)
    assert released == [None] * 3


def test_a_gradient_that_is_not_finite_stops_before_the_next_row(results, tmp_path, capsys):
    # Steps of 1e307 along gradients of about 1e3 overflow, to opposite sides in the two coordinates.
    file = tmp_path / "steep.svm"
    file.write_text("".join(f"{j % 2} 1:{5e3 * (j % 2 - 0.4)} 2:{-5e3 * (j % 2 - 0.4)}\n" for j in range(40)))
    command = [results, "task=logreg/file", f"task.dataset.file={file}", f"data_dir={tmp_path}"]
    command += ["algorithm=sgd", "lr=1e307", "rounds=20", "eval_every=10", "cluster.workers=4"]
    assert run_exit_code(command) == 1
    assert "round 2, worker 0, trial 0 (lr=1e+307): local gradient is" in capsys.readouterr().err
    assert status(run_folder(*command))["round"] == 1
    assert [row["round"] for row in rows(run_folder(*command))] == [0]


def test_wrong_data_and_text(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "bad.svm"
    file.write_text("1 1:1\n0 one:2\n")
    command = [results, "task=logreg/file", f"task.dataset.file={file}", f"data_dir={tmp_path}"]
    assert run_exit_code(command) == 1
    assert f"{file}, line 2" in capsys.readouterr().err
    assert run_exit_code([*SMALL, results, "cluster.workers=570"]) == 2
    assert "cluster.workers=570: the data set has 569 rows" in capsys.readouterr().err
    assert run_exit_code([*SMALL, results, f"task.display.label={'a' * 2001}"]) == 2
    assert "larger or deeper than a configuration may be" in capsys.readouterr().err


def test_a_run_that_another_holds_is_refused(results: str, capsys: pytest.CaptureFixture) -> None:
    path = run_folder(*SMALL, results)
    with RunFolder(path).lock():
        assert run_exit_code([*SMALL, results]) == 1
    assert f"{path}: another process uses this run" in capsys.readouterr().err
    assert go(*SMALL, results) == path
    assert status(path)["status"] == "finished"


def test_a_finished_run_of_another_user_is_shown(results, monkeypatch, capsys):
    path = go(*SMALL, results)
    before = [file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()]
    monkeypatch.setattr(RunFolder, "is_writable", lambda folder: False)
    monkeypatch.setattr(RunFolder, "lock", None)
    go(*SMALL, results, "algorithm.display.label=mine")
    assert f"already finished, and its folder cannot be written: {path}" in capsys.readouterr().err.replace("\n", "")
    assert [file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()] == before


def test_a_finished_run_without_one_of_its_files(results: str, capsys: pytest.CaptureFixture) -> None:
    """tests/reliability/test_record_campaign.py has all other damage."""
    finished = go(*SMALL, results)
    for name in ("summary.json", "metrics.jsonl"):
        (finished / name).rename(finished / "kept")
        assert run_exit_code([*SMALL, results]) == 1
        assert f"{finished}: finished, but without {name}; delete" in capsys.readouterr().err
        (finished / "kept").rename(finished / name)


def test_what_killed_processes_left_is_removed(interrupted: Path, results: str, at_round: Callable) -> None:
    folder = interrupted / "checkpoint"
    for place in (interrupted, folder, folder / "12", folder / "3"):
        place.mkdir(exist_ok=True)
        (place / f".status.json.{os.getpid()}-{'0' * 32}.tmp").write_bytes(b"half")
    (folder / "15").mkdir()  # not complete
    theirs = [folder / name for name in ("notes/a", "500/b", ".ssh/c")]  # of nobody here
    for file in theirs:
        file.parent.mkdir()
        file.touch()
    found = []
    at_round(14, lambda: found.extend(sorted(file.name for file in folder.rglob("*") if "worker" not in file.name)))
    go(*SMALL, results)
    assert {name for name in found if len(name) > 1} == {"12", "shared.pt", "notes", "500", ".ssh"}
    assert {file.name for file in folder.iterdir()} == {"20", "notes", "500", ".ssh"}
    assert all(file.exists() for file in theirs)
    assert not list(interrupted.rglob("*.tmp"))


@pytest.mark.parametrize("name", ["checkpoint", "metrics.jsonl", "summary.json", ".lock", "checkpoint/12/shared.pt"])
def test_a_link_in_a_runs_folder_is_refused(name, interrupted, results, tmp_path, capsys):
    """It would lead what the run writes and removes to somewhere else."""
    inside, outside = interrupted / name, tmp_path / "outside"
    if inside.exists():
        inside.rename(outside)
    inside.symlink_to(outside)
    before = contents(tmp_path)
    assert run_exit_code([*SMALL, results]) == 1
    assert f"error: {inside}: is a link, so nothing is written there" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_folder_removed_while_its_run_is_going_on(results, at_round, capsys):
    path = run_folder(*SMALL, results)
    at_round(8, lambda: shutil.rmtree(path))
    assert run_exit_code([*SMALL, results]) == 1
    assert f"error: {path}: the folder was removed; the same command begins anew" in capsys.readouterr().err
    assert not path.exists()
    go(*SMALL, results)


RUN = (*SMALL, "rounds=60", "checkpoint_every=10")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A small disk, of so many kB; again: the same with other room."""
    place = tmp_path / "disk"
    place.mkdir()

    def sized(size: int) -> Path:
        how = "remount," if place.is_mount() else ""
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"{how}size={size}k", "tmpfs", str(place)], check=False)
        if done.returncode:
            pytest.skip("no file system can be mounted here")
        return place

    yield sized
    if place.is_mount():
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _lines(path: Path) -> list[str]:
    text = (path / "metrics.jsonl").read_text() if (path / "metrics.jsonl").exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("size", [24, *(pytest.param(size, marks=pytest.mark.slow) for size in (4, 40))])
def test_a_run_without_room(size, disk, tmp_path, capsys):
    place = disk(size)
    command = [*RUN, f"results_dir={place / 'results'}"]
    path = run_folder(*command)
    assert run_exit_code(command) == 1
    [error] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: {place}")
    assert "the same command goes on" in error
    if (path / "metrics.jsonl").exists() and _lines(path):
        assert status(path)["status"] == "failed"
        assert "No space left" in status(path)["error"]
    expected = timeless(go(*RUN, f"results_dir={tmp_path / 'alone'}"))
    kept = [{k: v for k, v in json.loads(line).items() if k not in ("seconds", "crc32")} for line in _lines(path)]
    assert kept == expected[: len(kept)]
    disk(4096)
    assert timeless(go(*command)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("fine", "name"), [(1, "ENOSPC"), (5, "ENOSPC"), (5, "EACCES"), (7, "EACCES")])
def test_wherever_a_file_cannot_be_put_in_place(fine, name, results, tmp_path, monkeypatch, capsys):
    left, replace, number = [fine], os.replace, getattr(errno, name)

    def failing(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(number, os.strerror(number))
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", failing)
    command = [*RUN, results]
    assert run_exit_code(command) == 1
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {run_folder(*command)}{os.sep}")
    assert os.strerror(number) in line
    assert ".tmp" not in line
    monkeypatch.undo()
    if _lines(run_folder(*command)):
        assert status(run_folder(*command))["status"] == "failed"
    assert timeless(go(*command)) == timeless(go(*RUN, f"results_dir={tmp_path / 'alone'}"))


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (RuntimeError("basic_ios::clear: iostream error"), True),
        (RuntimeError("inline_container.cc:595] . PytorchStreamWriter failed writing file data/0"), True),
        (OSError("128 requested and 0 written"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (RuntimeError("something else"), False),
    ],
    ids=str,
)
def test_what_says_that_there_is_no_room(error, full, tmp_path, capsys):
    assert is_disk_full(error) == full
    target = tmp_path / "folder" / "file"
    for writing in (name_in_errors, atomic_write):
        ending = pytest.raises(SystemExit if full or isinstance(error, OSError) else RuntimeError)
        with ending, exit_with_message(), writing(target):
            raise error
        said = capsys.readouterr().err
        assert (f"error: {target}: No space left on device: make room" in said) == full
        assert not target.exists()


def test_what_no_command_can_work_in(tmp_path, monkeypatch, capsys):
    """A folder that was removed, an encoding other than UTF-8."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(SystemExit, match="2"), exit_with_message():
        pytest.fail("it went on")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    with pytest.raises(SystemExit, match="2"), exit_with_message():
        pytest.fail("it went on")
    assert capsys.readouterr().err.splitlines() == [
        "error: the working folder was removed: change to another one",
        "error: this locale writes text in ascii, UTF-8 is needed: set PYTHONUTF8=1",
    ]


def test_a_run_goes_on_where_nothing_can_be_printed_on_standard_error(results, monkeypatch, capsys):
    """An error is then printed on standard output."""
    full = io.TextIOWrapper(Path("/dev/full").open("wb", buffering=0), write_through=True)  # noqa: SIM115
    monkeypatch.setattr(sys, "stderr", full)
    path = go(*SMALL, results)
    assert status(path)["status"] == "finished"
    assert run_exit_code([*SMALL, "seed=-1"]) == 2
    assert "error: seed=-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EFBIG, "File too large", "a"), "error: a: File too large: raise the limit, ulimit -f\n"),
        (OSError(errno.ENOSPC, "No space left on device"), "error: standard output: No space left on device: make"),
    ],
    ids=str,
)
def test_what_a_limit_or_a_full_output_is_called(error, said, capsys):
    with pytest.raises(SystemExit, match="1"), exit_with_message():
        raise error
    assert capsys.readouterr().err.startswith(said)
