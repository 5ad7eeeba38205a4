"""Processes that end with the one that started them, whatever that or they are doing."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import until

ROOT = Path(__file__).resolve().parents[1]

PARENT = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); input()"
CHILD = """
import os, signal, sys, time
from pathlib import Path
from common import signals

signals.GRACE = 0.3
folder, how = Path(sys.argv[1]), sys.argv[2]
def note(number, frame):
    (folder / "asked").touch()
    if how != "deaf":
        sys.exit()
signal.signal(signal.SIGTERM, note)
signals.end_with_parent()
(folder / "ready").touch()
while True:
    time.sleep(0.02)
"""


def _state(process: int) -> str:
    """As /proc has it, R or S, say; empty for one that is no more."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0].strip("Z")
    return ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by Linux's /proc")
@pytest.mark.parametrize("how", ["listening", "deaf"])
def test_a_process_ends_with_its_parent(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, sys.executable, "-c", CHILD, str(tmp_path), how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as parent:
        child = int(parent.stdout.readline())
        try:
            until((tmp_path / "ready").exists)
            until(lambda: _state(child) == "S")
            assert not (tmp_path / "asked").exists()
        finally:
            parent.kill()
        until(lambda: not _state(child))
    assert (tmp_path / "asked").exists()
