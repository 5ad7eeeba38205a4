"""What a power cut leaves: nothing but what was synced, which a run goes on from as from a kill."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from run_support import SMALL, go, status, timeless, where

from experiments.run_store.checkpoint import Checkpoint, rounds

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
                if folder / name in self._all_folders:
                    copy(folder / name, to / name)
                else:
                    (to / name).write_bytes(files.get(number, b""))

        copy(self.root, target)

    @property
    def _all_folders(self) -> set[Path]:
        return set(self.moments[-1][1])

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)


@pytest.fixture
def disk(results: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk under the run's folder."""
    disk = Disk(where(*RUN, results))
    monkeypatch.setattr(os, "fsync", disk.sync)
    yield disk
    monkeypatch.undo()
    disk.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds what is synced by Linux's /proc")
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_what_a_power_cut_leaves_at_any_moment_is_gone_on_from(
    every: int, disk: Disk, results: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
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
        path = where(*RUN, place)
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
def test_a_file_system_that_syncs_no_folders(
    number: str, refused: bool, results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(getattr(errno, number), number)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match=number) if refused else nullcontext():
        go(*RUN, results)
