"""What a run's folder says of itself: checksums, and one process at a run even where locks do not work."""

import errno
import fcntl
import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from run_support import SMALL, go, halted, rows, status, where

from common.errors import RunError
from experiments import check
from experiments.run_store.folder import RunFolder
from plots.runs.files import read_rows
from plots.runs.find import find
from plots.runs.read import verified


def verdict(folder: Path, capsys: pytest.CaptureFixture) -> tuple[int, list[str]]:
    """The exit status of `experiments.check` for a results folder, and its lines."""
    capsys.readouterr()
    code = 0
    try:
        check.main([str(folder)])
    except SystemExit as stop:
        code = int(str(stop.code))
    return code, capsys.readouterr().out.splitlines()


def test_a_tree_of_runs_is_verified(results: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    good, bad = (go(*SMALL, f"seed={seed}", results) for seed in range(2))
    assert verdict(tmp_path / "results", capsys) == (0, ["2 run folders, 0 damaged"])
    metrics = bad / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"round": 10', '"round": 11'))
    code, lines = verdict(tmp_path / "results", capsys)
    assert code == 1
    assert f"damaged   {bad}: {metrics}, line 3: checksum mismatch" in "".join(lines)
    assert lines[-1] == "2 run folders, 1 damaged"
    assert verified(good)


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    file.write_bytes(content)


@pytest.mark.slow
def test_what_an_unfinished_run_goes_on_from_is_verified(
    interrupted: Path, results: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
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
    one, other = (file for file in files if file.name in ("worker-3.pt", "worker-4.pt"))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    assert f"{one.name}: damaged" in verdict(place, capsys)[1][0]
    one.write_bytes(content)
    assert verdict(place, capsys) == (0, ["1 run folders, 0 damaged"])
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
    shutil.copytree(go(*SMALL, results), where(*SMALL, results, "seed=1"))
    assert halted([*SMALL, results, "seed=1"]) == 1
    assert "of another run" in capsys.readouterr().err


def test_a_half_row_at_the_end_is_normal_until_a_run_is_finished(interrupted: Path, results: str) -> None:
    with (interrupted / "metrics.jsonl").open("a") as file:
        file.write('{"round": 15, "ep')
    assert verified(interrupted)
    with (go(*SMALL, results) / "metrics.jsonl").open("a") as file:
        file.write('{"round": 15, "ep')
    with pytest.raises(ValueError, match=r"metrics.jsonl: ends in half a line, although the run is finished"):
        verified(interrupted)


def test_damage_that_comes_during_a_run_ends_it_as_failed(
    results: str, at_round: Callable, capsys: pytest.CaptureFixture
) -> None:
    """Of the same length, so that it is seen when the summary is made of all rows."""
    path = where(*SMALL, results)
    metrics = path / "metrics.jsonl"
    at_round(17, lambda: metrics.write_text(metrics.read_text().replace('"round": 10', '"round": 11')))
    assert halted([*SMALL, results]) == 1
    assert f"{metrics}, line 3: checksum mismatch" in capsys.readouterr().err
    assert status(path)["status"] == "failed"
    assert halted([*SMALL, results]) == 1
    assert f"delete {path} to begin anew" in capsys.readouterr().err


def test_of_rows_that_do_not_fit_on_the_disk_none_is_kept(interrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, before = RunFolder(interrupted), (interrupted / "metrics.jsonl").read_bytes()
    opened = Path.open

    class Full:
        def __init__(self, file: Path, mode: str) -> None:
            self._file = opened(file, mode)

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, content: bytes) -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda file, mode="r": (Full if mode == "ab" else opened)(file, mode))
        with pytest.raises(OSError, match="No space") as full:
            folder.append([{"round": 15, "trial": 0}, {"round": 15, "trial": 1}])
    assert full.value.filename == str(interrupted / "metrics.jsonl")
    assert (interrupted / "metrics.jsonl").read_bytes() == before
    folder.append([{"round": 15, "trial": 0}])
    assert [*read_rows(interrupted)][-1] == {"round": 15, "trial": 0}


def test_a_kill_while_rows_are_cut_back_leaves_a_whole_folder(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a checkpoint that is older than the last row."""
    folder = RunFolder(interrupted)
    size = (interrupted / "metrics.jsonl").read_bytes().find(b"\n") + 1

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "truncate", killed)
        with pytest.raises(KeyboardInterrupt):
            folder._cut(size)
    assert [row["round"] for row in rows(interrupted)] == [0, 5, 10]
    assert verified(interrupted)
    folder._cut(size)
    assert [row["round"] for row in rows(interrupted)] == [0]
    assert verified(interrupted)


@pytest.mark.parametrize("code", ["ENOLCK", pytest.param("ENOSYS", marks=pytest.mark.slow)])
def test_locks_that_do_not_work_are_said_to(
    code: str, results: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    number = getattr(errno, code)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert halted([*SMALL, results]) == 1
    said = capsys.readouterr().err
    assert f"{where(*SMALL, results) / '.lock'}: cannot be locked ({errno.errorcode[number]}: " in said
    assert "put results_dir on another file system" in said
    assert not list(where(*SMALL, results).glob("[!.]*"))


def test_a_column_cannot_be_called_as_the_checksum_is(interrupted: Path) -> None:
    with pytest.raises(ValueError, match="crc32: this name is reserved"):
        RunFolder(interrupted).append([{"round": 15, "crc32": 1.0}])


def test_a_sweeps_lock_names_its_holder_too(tmp_path: Path) -> None:
    from experiments.orchestration.study import StudyFolder

    study = StudyFolder(str(tmp_path), "mine")
    with study.locked(), pytest.raises(RunError, match=r"another process is at this sweep; wait"), study.locked():
        pass
    (study.path / ".lock").write_text("elsewhere 17\n")
    with study.locked():
        assert (study.path / ".lock").read_text().split() == [socket.gethostname(), str(os.getpid())]
