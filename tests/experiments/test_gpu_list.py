"""The list for a borrowed GPU, and devices that are compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import devices

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
PYTHON = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$*" in *test_graph*) exit 1 ;; *devices*) sleep 60 ;; esac
echo found
"""


def listed(folder: Path, **environment: str) -> list[str]:
    """What the script says."""
    known = os.environ | {"RESULTS": str(folder / "r")} | environment
    return subprocess.run(["bash", SCRIPT], env=known, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.slow
def test_what_is_done_is_skipped_what_fails_is_said_and_the_deadline_is_kept(tmp_path: Path) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text(PYTHON.format(folder=tmp_path))
    stand_in.chmod(0o755)
    first = listed(tmp_path, PYTHON=str(stand_in), DEADLINE="33")
    assert [line.split(":")[:2] for line in first[:3]] == [
        ["tests", " failed"],
        ["devices", " stopped"],
        ["step-cd_adam-float32", " no time is left"],
    ]
    stand_in.write_text(PYTHON.format(folder=tmp_path).replace("sleep 60", "exit 0"))
    second, third = (listed(tmp_path, PYTHON=str(stand_in)) for _ in range(2))
    assert second[2] == "step-cd_adam-float32: done: found"
    assert third[0].startswith("tests: failed")
    assert all(line.endswith(": done before") for line in third[1:])
    assert len(third) == len(first) == len(second)


def test_methods_are_compared_or_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """The CPU with itself; those with a period exchange meanwhile."""
    names = ["algorithm=diloco", "algorithm=muloco", "algorithm=adam compressor=top_k"]
    monkeypatch.setattr(devices, "names", lambda: names)
    devices.main(["device=cpu", "rounds=6", "task.model.width=2", "cluster.workers=2"])
    diloco, muloco, refused, last = capsys.readouterr().out.splitlines()
    assert (diloco, muloco) == (f"{names[0]}: 0", f"{names[1]}: 0")
    assert refused.startswith(f"{names[2]}: refused: ")
    assert "takes Identity" in refused
    assert last.startswith("2 combinations")


@pytest.mark.slow
def test_the_whole_list_rehearsed(tmp_path: Path) -> None:
    """Every command of the list, tiny and on the CPU."""
    lines = listed(tmp_path, REHEARSE="1", PYTHON=sys.executable)
    assert len(lines) == 20
    assert all(": done: " in line for line in lines), lines
