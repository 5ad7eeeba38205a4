"""The cores of this process, by affinity and a container's quota."""

import os
from pathlib import Path

import pytest

from common import cores as module

UNLIMITED = ("max 100000", "-1 100000")


@pytest.mark.parametrize(
    ("affinity", "newer", "older", "expected"),
    [
        (4, *UNLIMITED, 4),
        (4, "200000 100000", UNLIMITED[1], 2),
        (4, "250000 100000", UNLIMITED[1], 2),
        (4, "50000 100000", UNLIMITED[1], 1),
        (4, UNLIMITED[0], "300000 100000", 3),
        (2, "800000 100000", UNLIMITED[1], 2),
        (4, "", "", 4),
    ],
)
def test_affinity_and_quota(
    affinity: int, newer: str, older: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in ("max", "quota", "period")]
    for file, text in zip(files, [newer, *(older.split() or ["", ""])], strict=True):
        if text:
            file.write_text(f"{text}\n")
    monkeypatch.setattr(module, "QUOTAS", (str(files[0]), f"{files[1]} {files[2]}"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(affinity)), raising=False)
    assert module.cores() == expected
