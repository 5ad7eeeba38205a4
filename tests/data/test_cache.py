"""Atomic files, locks, and the cache of arrays."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from common import files
from common.errors import DataError
from common.files import hold_lock
from data import cache

ARRAYS = {"a": np.arange(1000, dtype="<i4"), "b": np.linspace(0, 1, 500).reshape(50, 10)}


class Builder:
    """Returns ARRAYS and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> cache.Arrays:
        self.calls += 1
        return ARRAYS


def same(arrays: cache.Arrays) -> bool:
    return list(arrays) == list(ARRAYS) and all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


def test_atomic_replaces_only_when_done(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with files.atomic_write(target) as temporary:
        temporary.write_text("first")
        assert not target.exists()
        assert temporary.parent == target.parent
        written = temporary.stat().st_ino
    assert target.read_text() == "first"
    assert target.stat().st_ino == written, "the file was copied: a reader could see half of it"
    assert list(target.parent.iterdir()) == [target]


def test_atomic_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with suppress(KeyboardInterrupt), files.atomic_write(target) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["a.npy", "b.npy", "about.json"])
@pytest.mark.parametrize("how", ["flip a byte", "cut", "remove", "empty", "other form"])
def test_a_cache_is_built_once_and_again_when_damaged(tmp_path: Path, name: str, how: str) -> None:
    folder, build = tmp_path / "sub" / "x", Builder()
    for _ in range(2):
        assert same(cache.load_cached(folder, build))
    assert build.calls == 1
    assert sorted(path.name for path in folder.parent.iterdir()) == ["x", "x.lock"]
    content = bytearray((folder / name).read_bytes())
    content[9 if name == "about.json" else -9] ^= 0x55
    (folder / name).unlink()  # what is mapped stays as it is
    if how != "remove":
        (folder / name).write_bytes({"flip a byte": content, "cut": content[:-9], "empty": b""}.get(how, b"[]"))
    for _ in range(2):
        assert same(cache.load_cached(folder, build))
    assert build.calls == 2


def test_who_writes_into_a_mapped_array_changes_no_file(tmp_path: Path) -> None:
    for _ in ("built", "read"):
        mapped = cache.load_cached(tmp_path / "x", Builder())
        mapped["a"][:] = -1
        assert mapped["a"][7] == -1
        assert same(cache.load_cached(tmp_path / "x", dict))


def test_halves_of_killed_processes_are_removed_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    with files.atomic_write(tmp_path / "file") as temporary:
        temporary.touch()

    def half(writer: int) -> Path:
        left = temporary.with_name(temporary.name.replace(str(os.getpid()), str(writer), 1))
        left.write_bytes(b"half")
        return left

    ended = subprocess.Popen(["true"])
    ended.wait()
    living, *_ = half(os.getppid()), half(ended.pid), half(os.getpid()), half(2**70)
    foreign = tmp_path / ".file.0123.tmp"
    foreign.touch()
    files.remove_partial_files(tmp_path.glob(".*.tmp"))
    assert set(tmp_path.iterdir()) == {living, foreign, tmp_path / "file"}


def test_lock_that_is_never_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "PATIENCE", 0.1)
    folder, build = tmp_path / "x", Builder()
    with (
        hold_lock(tmp_path / "x.lock", "data set", "data_dir", 0),
        ThreadPoolExecutor(1) as other,
        pytest.raises(DataError, match=f"^{tmp_path}: another process uses this data set; wait for it or stop it$"),
    ):
        other.submit(cache.load_cached, folder, build).result()
    assert not build.calls
    assert same(cache.load_cached(folder, build))


def test_lock_where_none_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert same(cache.load_cached(tmp_path / "file" / "x", Builder()))
    assert (tmp_path / "file").read_text() == ""
