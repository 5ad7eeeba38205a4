"""What would take more memory than is free, and files that need not end."""

import os
import sys
from pathlib import Path

import pytest

from common.errors import DataError, UsageError
from data import libsvm, limits
from data.limits import free_memory
from experiments.config.run import load_run
from experiments.tasks.logreg import LogisticRegression


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_only_regular_files_are_read(make, tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(DataError, match=r"cannot read .*/a: not a regular file"):
        libsvm.load_file(tmp_path / "a", tmp_path)
    with pytest.raises(UsageError, match=r"^/.*/a: not a regular file$"):
        load_run(["task=logreg/file", f"task.dataset.file={tmp_path / 'a'}"])


def test_an_index_that_makes_vectors_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 50 * 10**9)
    (tmp_path / "a").write_text("1 1:1\n2 1000000000:1\n1 7:1\n")
    dataset = libsvm.load_file(tmp_path / "a", tmp_path)
    with pytest.raises(DataError) as refused:
        LogisticRegression(dataset, workers=1, seed=0)
    assert "a has 1000000000 columns (its largest index is in row 2), so a run" in str(refused.value)


def test_what_is_free_is_the_least_of_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**20 < free_memory() < sys.maxsize
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "own").write_text("12345\n")
    monkeypatch.setattr(limits, "MEMORY_FILES", (str(tmp_path / "max"), str(tmp_path / "gone")))
    machine = free_memory()
    monkeypatch.setattr(limits, "MEMORY_FILES", (str(tmp_path / "max"), str(tmp_path / "own")))
    assert free_memory() == 12345 < machine
    (tmp_path / "job" / "task").mkdir(parents=True)  # a job's limit holds for its tasks
    (tmp_path / "job" / "limit").write_text("1234\n")
    (tmp_path / "groups").write_text("5:cpu:/\n4:memory:/job/task\n0::/\n")
    monkeypatch.setattr(limits, "MEMORY_FILES", (f"{tmp_path}{{}}/limit",))
    monkeypatch.setattr(limits, "GROUPS", tmp_path / "groups")
    assert free_memory() == 1234
