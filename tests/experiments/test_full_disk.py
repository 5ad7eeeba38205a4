"""Disks without room: a line that says where and how much is free, `failed`, every whole row kept; and it goes on."""

import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from run_support import SMALL, go, halted, status, timeless, where

from common import files
from common.errors import exit_with_message, is_full
from common.files import atomic, naming
from experiments import report

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


def _one_line(said: str, place: Path) -> bool:
    """Whether there is one error, in a line, that names a place below `place`."""
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    return (
        len(errors) == 1
        and errors[0].startswith(f"error: {place}")
        and "the same command goes on" in errors[0]
        and "Traceback" not in said
    )


def _lines(path: Path) -> list[str]:
    text = (path / "metrics.jsonl").read_text() if (path / "metrics.jsonl").exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("size", [24, *(pytest.param(size, marks=pytest.mark.slow) for size in (4, 40))])
def test_a_run_without_room(
    size: int, disk: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = disk(size)
    command = [*RUN, f"results_dir={place / 'results'}"]
    path = where(*command)
    assert halted(command) == 1
    assert _one_line(capsys.readouterr().err, place)
    if (path / "metrics.jsonl").exists() and _lines(path):
        assert status(path)["status"] == "failed"
        assert "No space left" in status(path)["error"]
    expected = timeless(go(*RUN, f"results_dir={tmp_path / 'alone'}"))
    kept = [{k: v for k, v in json.loads(line).items() if k not in ("seconds", "crc32")} for line in _lines(path)]
    assert kept == expected[: len(kept)]
    disk(4096)
    assert timeless(go(*command)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("fine", [1, 5])
def test_wherever_a_file_cannot_be_put_in_place(
    fine: int, results: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left, replace = [fine], os.replace

    def failing(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", failing)
    command = [*RUN, results]
    assert halted(command) == 1
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {where(*command)}{os.sep}")
    assert "No space left on device" in line
    monkeypatch.undo()
    if _lines(where(*command)):
        assert status(where(*command))["status"] == "failed"
    assert timeless(go(*command)) == timeless(go(*RUN, f"results_dir={tmp_path / 'alone'}"))


@pytest.mark.slow
def test_a_page_without_room(disk: Callable[[int], Path], results: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, place = go(*SMALL, results), disk(40)
    target = place / "report.html"
    with pytest.raises(SystemExit) as stop:
        report.main([f"results_dir={path.parents[2]}", f"out={target}"])
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert _one_line(said, place)
    assert f"error: {target}: " in said
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (RuntimeError("basic_ios::clear: iostream error"), True),
        (
            RuntimeError(
                "[enforce fail at inline_container.cc:595] . PytorchStreamWriter failed writing file data/0"
            ),
            True,
        ),
        (OSError("128 requested and 0 written"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (RuntimeError("something else"), False),
    ],
    ids=str,
)
def test_what_says_that_there_is_no_room(
    error: Exception, full: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_full(error) == full
    target = tmp_path / "folder" / "file"
    for writing in (naming, atomic):
        ending = pytest.raises(SystemExit if full or isinstance(error, OSError) else RuntimeError)
        with ending, exit_with_message(), writing(target):
            raise error
        said = capsys.readouterr().err
        assert (f"error: {target}: No space left on device: make room" in said) == full
        assert not target.exists()
