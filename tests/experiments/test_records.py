"""What a run's folder says of itself: checksums, locks, and what a power cut leaves."""

import errno
import fcntl
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from run_support import SMALL, go, run_exit_code, run_folder, status, timeless
from waiting import exit_status

from common.errors import RunError
from experiments import check
from experiments.orchestration.study import StudyFolder
from experiments.run_store import code
from experiments.run_store.checkpoint import Checkpoint, rounds
from plots.runs.find import find
from plots.runs.read import open_run


def verdict(folder: Path, capsys: pytest.CaptureFixture) -> tuple[int | str, list[str]]:
    """The exit status of `experiments.check` for a results folder, and its lines."""
    capsys.readouterr()
    return exit_status(lambda: check.main([str(folder)])), capsys.readouterr().out.splitlines()


def test_a_tree_of_runs_is_verified(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    good, bad = (go(*SMALL, f"seed={seed}", results) for seed in range(2))
    assert verdict(tmp_path / "results", capsys) == (0, ["2 run folders, 0 damaged"])
    metrics = bad / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"round": 10', '"round": 11'))
    code, lines = verdict(tmp_path / "results", capsys)
    assert code == 1
    assert f"damaged   {bad}: {metrics}, line 3: checksum mismatch" in "".join(lines)
    assert lines[-1] == "2 run folders, 1 damaged"
    assert open_run(good)


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    file.write_bytes(content)


@pytest.mark.slow
def test_what_an_unfinished_run_goes_on_from_is_verified(interrupted, results, tmp_path, capsys):
    place = tmp_path / "results"
    assert verdict(place, capsys) == (0, ["1 run folders, 0 damaged"])
    checkpoint = interrupted / "checkpoint"
    files = sorted(file for file in checkpoint.rglob("*") if file.is_file())
    assert {file.name for file in files} >= {"shared.pt", "worker-0.pt", "worker-19.pt"}
    for number, file in enumerate(files):
        before = file.read_bytes()
        flip(file, 7919 * number)
        code, [line, *rest] = verdict(place, capsys)
        assert code == 1
        assert line.startswith(f"damaged   {interrupted}: {file.parent}: ")
        assert f"{file.name}: damaged" in line
        if file.name != "shared.pt":  # without which it is a half of one, as a kill leaves it
            file.unlink()
            assert verdict(place, capsys) == (1, [f"damaged   {interrupted}: {file}: missing", *rest])
        file.write_bytes(before)
    go(*SMALL, results)
    [left] = [file.parent for file in checkpoint.rglob("worker-0.pt")]
    flip(left / "worker-0.pt", 1)  # which nothing goes on from
    assert verdict(place, capsys) == (0, ["1 run folders, 0 damaged"])


@pytest.mark.parametrize("name", ["summary.json", "config.yaml", "metrics.jsonl"])
def test_a_file_without_a_checksum_is_not_trusted(name: str, results: str, tmp_path: Path) -> None:
    path = go(*SMALL, results)
    text = (path / name).read_text()
    (path / name).write_text(re.sub(r',?\s*"crc32": "\w+"|# crc32: \w+\n', "", text))
    [run] = find(tmp_path / "results")
    assert run.state == "damaged"
    assert "checksum mismatch" in run.error


def test_a_folder_under_another_runs_id_is_not_taken_for_it(results: str, capsys: pytest.CaptureFixture) -> None:
    shutil.copytree(go(*SMALL, results), run_folder(*SMALL, results, "seed=1"))
    assert run_exit_code([*SMALL, results, "seed=1"]) == 1
    assert "of another run" in capsys.readouterr().err


def test_a_half_row_at_the_end_is_normal_until_a_run_is_finished(interrupted: Path, results: str) -> None:
    with (interrupted / "metrics.jsonl").open("a") as file:
        file.write('{"round": 15, "ep')
    assert open_run(interrupted)
    with (go(*SMALL, results) / "metrics.jsonl").open("a") as file:
        file.write('{"round": 15, "ep')
    with pytest.raises(ValueError, match=r"metrics.jsonl: ends in half a line, although the run is finished"):
        open_run(interrupted)


def test_damage_that_comes_during_a_run_ends_it_as_failed(results, at_round, capsys):
    """Of the same length, so that it is seen when the summary is made of all rows."""
    path = run_folder(*SMALL, results)
    metrics = path / "metrics.jsonl"
    at_round(17, lambda: metrics.write_text(metrics.read_text().replace('"round": 10', '"round": 11')))
    assert run_exit_code([*SMALL, results]) == 1
    assert f"{metrics}, line 3: checksum mismatch" in capsys.readouterr().err
    assert status(path)["status"] == "failed"
    assert run_exit_code([*SMALL, results]) == 1
    assert f"delete {path} to begin anew" in capsys.readouterr().err


def test_locks_that_do_not_work_are_said_to(results, monkeypatch, capsys):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert run_exit_code([*SMALL, results]) == 1
    said = capsys.readouterr().err
    assert f"{run_folder(*SMALL, results) / '.lock'}: cannot be locked (ENOLCK: " in said
    assert "put results_dir on another file system" in said
    assert not list(run_folder(*SMALL, results).glob("[!.]*"))


def test_a_sweeps_lock_names_its_holder_too(tmp_path: Path) -> None:
    study = StudyFolder(str(tmp_path), "mine")
    with study.lock(), pytest.raises(RunError, match=r"another process uses this sweep; wait"), study.lock():
        pass
    (study.path / ".lock").write_text("elsewhere 17\n")
    with study.lock():
        assert (study.path / ".lock").read_text().split() == [socket.gethostname(), str(os.getpid())]


RUN = (*SMALL, "rounds=9", "eval_every=3", "checkpoint_every=4", "cluster.workers=2", "task.batch_size=3")


class Disk:
    """What of a folder is on the disk itself: files as they were when last synced, under the names that their folders
    had when these were. `moments` has a copy of it after every sync."""

    def __init__(self, root: Path) -> None:
        self.root, self.moments = root, []
        self._files: dict[int, bytes] = {}
        self._folders: dict[Path, dict[str, int]] = {}
        self._held: list[int] = []  # so that no other file gets its number

    def sync(self, descriptor: int) -> None:
        """Instead of os.fsync."""
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self._held.append(os.dup(descriptor))
        if place.is_dir():
            self._folders[place] = {entry.name: entry.stat().st_ino for entry in place.iterdir()}
        else:
            self._files[place.stat().st_ino] = place.read_bytes()
        self.moments.append((dict(self._files), dict(self._folders)))

    def leave(self, moment: int, target: Path) -> None:
        """What a power cut after this sync leaves of the folder, at `target`."""
        files, folders = self.moments[moment]

        def copy(folder: Path, to: Path) -> None:
            to.mkdir(parents=True, exist_ok=True)
            for name, number in folders.get(folder, {}).items():
                if folder / name in self.moments[-1][1]:  # the folders
                    copy(folder / name, to / name)
                else:
                    (to / name).write_bytes(files.get(number, b""))

        copy(self.root, target)

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)


@pytest.fixture
def disk(results: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk under the run's folder."""
    disk = Disk(run_folder(*RUN, results))
    monkeypatch.setattr(os, "fsync", disk.sync)
    yield disk
    monkeypatch.undo()
    disk.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds what is synced by Linux's /proc")
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_what_a_power_cut_leaves_at_any_moment_is_gone_on_from(every, disk, results, tmp_path, monkeypatch, capsys):
    promised, save = {0: None}, Checkpoint.save

    def saving(self: Checkpoint, state: dict, ids: range) -> None:
        save(self, state, ids)
        promised[len(disk.moments) - 1] = state["t"]  # from this moment on

    monkeypatch.setattr(Checkpoint, "save", saving)
    expected = timeless(go(*RUN, results))
    assert list(promised.values()) == [None, 4, 8, 9]
    monkeypatch.undo()
    for moment in range(0, len(disk.moments), every):
        place = f"results_dir={tmp_path / str(moment)}"
        path = run_folder(*RUN, place)
        disk.leave(moment, path)
        found = max(rounds(path / "checkpoint"), default=0)
        assert found >= max(t or 0 for since, t in promised.items() if since <= moment), moment
        capsys.readouterr()
        assert timeless(go(*RUN, place)) == expected, moment
        said = capsys.readouterr().err
        assert "instead" not in said, moment
        assert not found or f"resumed at round {found}" in said or "already finished" in said, moment
    last = tmp_path / "last"
    disk.leave(len(disk.moments) - 1, last)
    assert status(last)["status"] == "finished"


@pytest.mark.parametrize(("number", "refused"), [("EINVAL", False), ("EIO", True)])
def test_a_file_system_that_does_not_sync(number, refused, results, monkeypatch):
    def fsync(descriptor: int) -> None:
        raise OSError(getattr(errno, number), number)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match=number) if refused else nullcontext():
        go(*RUN, results)


def test_git_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run would leave the lock of git's index behind, and no commit would be possible."""
    place = tmp_path / "code.py"
    place.touch()
    monkeypatch.setattr(code, "__file__", str(place))
    for words in (["init"], ["add", "code.py"]):
        subprocess.run(["git", *words], cwd=tmp_path, capture_output=True, check=True)
    os.utime(place, (1, 1))  # which git would note in its index
    before = (tmp_path / ".git" / "index").read_bytes()
    assert code.revision.__wrapped__()["uncommitted_changes"]
    assert (tmp_path / ".git" / "index").read_bytes() == before
